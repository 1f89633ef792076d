import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { problemAt } from '~/api/problems'
import { toolsQuery } from '~/api/queries'
import { Field, Input, Select, Switch, Textarea } from '~/ui/Field'
import { JsonField } from '~/ui/JsonField'
import { Tabs } from '~/ui/Tabs'
import { checkDraft, type Draft, shapeProblem } from './agent-draft'
import { AdvancedFields } from './AdvancedFields'
import { ModelFields } from './ModelFields'

export type FormProps = { draft: Draft; onChange: (next: Draft) => void; error: unknown; onBroken: (field: string, isBroken: boolean) => void; /** A text is no JSON now. */ isBroken: boolean; readsTools: boolean; /** The names of the other agents. */ taken: readonly string[] }

/** A definition as a form, or as its JSON; both change the same draft. */
export function AgentForm(props: FormProps) {
  const [view, setView] = useState<'form' | 'json'>('form')
  const [isRefused, setRefused] = useState(false)
  const wrong = shapeProblem(props.draft)
  const isWrong = props.isBroken || wrong !== undefined
  const change = (next: 'form' | 'json') => {
    setRefused(isWrong)
    if (!isWrong) setView(next)
  }
  return (
    <Tabs
      label="How to edit"
      value={view}
      // What cannot be shown in the other way stays as it is, with what is wrong below it.
      onChange={change}
      note={isRefused && isWrong && 'Correct the JSON first: otherwise its text would be lost.'}
      tabs={[
        { key: 'form', label: 'Form', panel: view === 'form' && <Fields {...props} /> },
        {
          key: 'json',
          label: 'JSON',
          panel: view === 'json' && (
            <JsonField
              label="Definition as JSON"
              rows={22}
              value={props.draft}
              problem={wrong ?? allProblems(props)}
              onBroken={(isBroken) => props.onBroken('all', isBroken)}
              onChange={(value) => props.onChange((value ?? {}) as Draft)}
            />
          ),
        },
      ]}
    />
  )
}

const allProblems = ({ error }: FormProps) => (error instanceof Error ? error.message : undefined)

function Fields({ draft, onChange, error, onBroken, readsTools, taken }: FormProps) {
  const tools = useQuery({ ...toolsQuery, enabled: readsTools }).data
  const found = checkDraft(draft, tools, taken)
  const problem = (field: string) => found[field] ?? problemAt(error, field)
  const set = (change: Partial<Draft>) => onChange({ ...draft, ...change })
  return (
    <div className="grid gap-4">
      <div className="grid gap-4 sm:grid-cols-[2fr_1fr]">
        <Field label="Name" problem={problem('name')} hint="Unique in the project.">
          {(ids) => <Input {...ids} value={draft.name ?? ''} onChange={(event) => set({ name: event.target.value })} />}
        </Field>
        <Field label="Visibility" problem={problem('visibility')} hint="Who may find and start it.">
          {(ids) => (
            <Select {...ids} value={draft.visibility ?? 'project'} onChange={(event) => set({ visibility: event.target.value as Draft['visibility'] })} options={[{ value: 'project', label: 'Project' }, { value: 'external', label: 'External: also from outside' }, { value: 'internal', label: 'Internal: only other agents' }]} />
          )}
        </Field>
      </div>
      <Field label="Description" problem={problem('description')} hint="What it is good at. Other agents read this when they look for help.">
        {(ids) => <Input {...ids} value={draft.description ?? ''} onChange={(event) => set({ description: event.target.value })} />}
      </Field>
      <Field label="Prompt" problem={problem('systemPrompt')}>
        {(ids) => <Textarea {...ids} rows={8} value={draft.systemPrompt ?? ''} onChange={(event) => set({ systemPrompt: event.target.value })} />}
      </Field>
      <ModelFields draft={draft} set={set} problem={problem} />
      <ToolsField draft={draft} set={set} problem={problem('tools')} names={tools?.map((tool) => tool.name) ?? []} />
      <Switch label="The default agent of the project" checked={draft.isDefault ?? false} onChange={(isDefault) => set({ isDefault })} />
      <AdvancedFields draft={draft} set={set} problem={problem} onBroken={onBroken} />
    </div>
  )
}

export type PartProps = { draft: Draft; set: (change: Partial<Draft>) => void; problem: (field: string) => string | undefined }

/** The tools, one on each line, and a field that adds one of those that exist. */
function ToolsField({ draft, set, problem, names }: Omit<PartProps, 'problem'> & { problem: string | undefined; names: string[] }) {
  const [text, setText] = useState((draft.tools ?? []).join('\n'))
  const [added, setAdded] = useState('')
  const list = useId()
  const change = (next: string) => {
    setText(next)
    set({ tools: next.split('\n').map((line) => line.trim()).filter(Boolean) })
  }
  const add = (name: string) => {
    if (!names.includes(name)) return setAdded(name)
    setAdded('')
    if (!(draft.tools ?? []).includes(name)) change(text.trim() ? `${text.trimEnd()}\n${name}` : name)
  }
  return (
    <div className="grid gap-4 sm:grid-cols-[2fr_1fr]">
      <Field label="Tools" problem={problem} hint="One name or pattern on each line, such as search_* or files.read_text_file. None means no tools.">
        {(ids) => <Textarea {...ids} rows={4} value={text} onChange={(event) => change(event.target.value)} className="font-mono text-xs!" />}
      </Field>
      <Field label="Add a tool" hint="Choose one of those the project has.">
        {(ids) => (
          <>
            <Input {...ids} list={list} value={added} onChange={(event) => add(event.target.value)} onKeyDown={(event) => event.key === 'Enter' && event.preventDefault()} placeholder="Type to find one" />
            <datalist id={list}>
              {names.map((name) => (
                <option key={name} value={name}>{name}</option>
              ))}
            </datalist>
          </>
        )}
      </Field>
    </div>
  )
}
