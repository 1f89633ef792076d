import { Field, Input, Select } from '~/ui/Field'
import { JsonField } from '~/ui/JsonField'
import type { Draft } from './agent-draft'
import type { PartProps } from './AgentForm'

const FLOWS = [
  { value: 'single', label: 'By itself' },
  { value: 'sequential', label: 'Others, one after the other' },
  { value: 'loop', label: 'Others, again and again' },
  { value: 'parallel', label: 'Others at once' },
]

/** What most agents leave empty. */
export function AdvancedFields({ draft, set, problem, onBroken }: PartProps & { onBroken: (field: string, isBroken: boolean) => void }) {
  const json = (field: 'approvals' | 'outputSchema' | 'flowConfig' | 'config', label: string, hint: string) => (
    <JsonField
      label={label}
      hint={hint}
      value={isEmpty(draft[field]) ? undefined : draft[field]}
      problem={problem(field)}
      onBroken={(isBroken) => onBroken(field, isBroken)}
      onChange={(value) => set({ [field]: value ?? (field === 'approvals' ? [] : field === 'config' ? {} : null) })}
    />
  )
  const chooseFlow = (flowType: Draft['flowType']) => {
    set({ flowType })
    // Its field is not shown any more, and its text is discarded with it.
    if (flowType === 'single') onBroken('flowConfig', false)
  }
  return (
    <details className="rounded-md border border-line" open={['trigger', 'approvals', 'outputSchema', 'flowType', 'flowConfig', 'config'].some((field) => problem(field) !== undefined) || undefined}>
      <summary className="cursor-pointer px-3 py-2 text-sm font-medium">Approvals, output, trigger and flow</summary>
      <div className="grid gap-4 border-t border-line p-3">
        {json('approvals', 'Approvals', 'Rules about calls; the first that matches decides: [{ "tools": ["entities_delete"], "action": "ask" }]')}
        {json('outputSchema', 'Output schema', 'A JSON schema that the final answer must match. Empty: the agent answers with text.')}
        <Field label="Trigger" problem={problem('trigger')} hint="An event such as on_document_ingested, or a cron expression such as 0 8 * * MON-FRI.">
          {(ids) => <Input {...ids} value={draft.trigger ?? ''} onChange={(event) => set({ trigger: event.target.value || null })} />}
        </Field>
        <Field label="How it works" problem={problem('flowType')}>
          {(ids) => <Select {...ids} value={draft.flowType ?? 'single'} onChange={(event) => chooseFlow(event.target.value as Draft['flowType'])} options={FLOWS} />}
        </Field>
        {(draft.flowType ?? 'single') !== 'single' && json('flowConfig', 'Flow', 'The agents it works through: { "agents": ["researcher", "writer"] }')}
        {json('config', 'Further settings', 'Such as handles and the settings of its trigger.')}
      </div>
    </details>
  )
}

const isEmpty = (value: unknown) => value === null || value === undefined || (Array.isArray(value) && value.length === 0) || (typeof value === 'object' && Object.keys(value as object).length === 0)
