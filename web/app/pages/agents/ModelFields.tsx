import { Field, Input } from '~/ui/Field'
import { NumberField } from '~/ui/NumberField'
import type { PartProps } from './AgentForm'
import { modelOf, splitModel } from './agent-draft'

/** Which model answers, and the limits of a run. */
export function ModelFields({ draft, set, problem }: PartProps) {
  const model = modelOf(draft.model)
  const setModel = (change: Partial<NonNullable<typeof model>>) => {
    const next = { ...model, name: model?.name ?? '', ...change }
    for (const key of Object.keys(next) as (keyof typeof next)[]) if (next[key] === undefined || next[key] === null || (key === 'provider' && next[key] === '')) delete next[key]
    set({ model: next.name || next.provider ? next : null })
  }
  return (
    <>
      <div className="grid grid-cols-2 gap-4 sm:grid-cols-[1fr_2fr_1fr_1fr]">
        <Field label="Provider">{(ids) => <Input {...ids} placeholder="google" value={model?.provider ?? ''} onChange={(event) => setModel({ provider: event.target.value })} />}</Field>
        <Field label="Model" problem={problem('model')} hint="Empty: the default of the server. Also provider/model.">
          {(ids) => <Input {...ids} placeholder="gemini-2.5-flash" value={model?.name ?? ''} onChange={(event) => setModel(splitModel(event.target.value, model?.provider))} />}
        </Field>
        <NumberField label="Temperature" most={2} value={model?.temperature} onChange={(temperature) => setModel({ temperature })} />
        <NumberField label="Tokens per answer" whole least={1} value={model?.maxTokens} onChange={(maxTokens) => setModel({ maxTokens })} />
      </div>
      <div className="grid grid-cols-2 gap-4">
        <NumberField label="Most steps" problem={problem('maxSteps')} hint="Then a last answer, and the run pauses." whole least={1} most={500} value={draft.maxSteps} onChange={(maxSteps) => set({ maxSteps })} />
        <NumberField label="Timeout in seconds" problem={problem('defaultTimeout')} whole least={1} most={86_400} value={draft.defaultTimeout} onChange={(defaultTimeout) => set({ defaultTimeout })} />
      </div>
    </>
  )
}
