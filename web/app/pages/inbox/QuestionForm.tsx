import { useRef, useState } from 'react'
import { forgetDrafts, hasDraft, useDraft } from '~/hooks/use-draft'
import { useShortcut } from '~/hooks/use-shortcut'
import { Button } from '~/ui/Button'
import { Field, Input, Select, Switch, Textarea } from '~/ui/Field'
import { parseJson } from '~/util/json'
import { DenyForm, Key, onSend } from './ApprovalForm'
import type { Approval } from './inbox-state'
import { fieldsOf, labelOf, type SchemaField, valueOf } from './schema-fields'
import { type Decide, problemsOf } from './use-decide'

type Props = { item: Approval; decide: Decide; /** Outside of the inbox: without its keys. */ inPlace?: boolean }

/** Answers a question: by an option, in words, or with a form. */
export function QuestionForm({ item, decide, inPlace = false }: Props) {
  const draft = `${item.id} answer`
  const leaving = `${item.id} deny`
  const [leaves, setLeaves] = useState(() => hasDraft(leaving))
  const [wasOpen] = useState(leaves)
  const form = useRef<HTMLDivElement>(null)
  useShortcut('r', () => form.current?.querySelector<HTMLElement>('input,textarea,select,button')?.focus(), !inPlace)
  useShortcut('d', () => setLeaves(true), !inPlace)
  const { options = [], responseSchema } = item.question ?? {}
  const answer = (value: unknown) => decide.mutate({ decision: 'answer', answer: value, told: 'The question was answered.' })
  const fields = responseSchema ? fieldsOf(responseSchema) : undefined
  const problem = problemsOf(decide.error).answer
  return (
    <div className="space-y-4">
      <div ref={form}>
        {options.length > 0 ? <Options options={options} onAnswer={answer} isBusy={decide.isPending} problem={problem} /> : fields ? <SchemaForm fields={fields} draft={draft} onAnswer={answer} isBusy={decide.isPending} problem={problem} /> : <TextForm isJson={Boolean(responseSchema)} draft={draft} onAnswer={answer} isBusy={decide.isPending} problem={problem} />}
      </div>
      {leaves ? (
        <DenyForm decide={decide} draft={leaving} autoFocus={!wasOpen} onClose={() => { forgetDrafts(leaving); setLeaves(false) }} action="Leave it unanswered" told="The question was left unanswered." />
      ) : (
        <Button onClick={() => setLeaves(true)}>
          Leave it unanswered{!inPlace && <Key>d</Key>}
        </Button>
      )}
    </div>
  )
}

type FormProps = { onAnswer: (value: unknown) => void; isBusy: boolean; problem: string | undefined }

function Options({ options, onAnswer, isBusy, problem }: FormProps & { options: string[] }) {
  return (
    <div role="group" aria-label="Answers" className="flex flex-wrap gap-2">
      {options.map((option) => (
        <Button key={option} busy={isBusy} onClick={() => onAnswer(option)} className="h-auto! min-h-8 max-w-full py-1.5 text-left whitespace-normal!">
          {option}
        </Button>
      ))}
      {problem && <p className="w-full text-xs text-danger-text">{problem}</p>}
    </div>
  )
}

/** Answers in words; for a schema that a form cannot show, in JSON. */
function TextForm({ onAnswer, isBusy, problem, isJson, draft }: FormProps & { isJson: boolean; draft: string }) {
  const [text, setText] = useDraft(draft, isJson ? '{\n  \n}' : '')
  let broken: string | undefined
  if (isJson) {
    try {
      parseJson(text)
    } catch (error) {
      broken = `This is no JSON: ${(error as Error).message}`
    }
  } else if (text.trim() === '') broken = 'Write an answer first.'
  const send = () => broken === undefined && onAnswer(isJson ? parseJson(text) : text.trim())
  return (
    <form
      className="max-w-3xl space-y-3"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <Field label={isJson ? 'Answer, in JSON' : 'Answer'} hint="The agent reads it and goes on." problem={problem ?? (isJson ? broken : undefined)}>
        {(ids) => <Textarea {...ids} rows={isJson ? 8 : 4} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onSend(send, isBusy)} className={isJson ? 'font-mono text-xs!' : ''} />}
      </Field>
      <Button type="submit" variant="primary" busy={isBusy} disabledReason={broken}>
        Send the answer<Key>Ctrl Enter</Key>
      </Button>
    </form>
  )
}

function SchemaForm({ fields, onAnswer, isBusy, problem, draft }: FormProps & { fields: SchemaField[]; draft: string }) {
  const [kept, setKept] = useDraft(draft, '{}')
  const texts = JSON.parse(kept) as Record<string, string>
  const set = (name: string) => (text: string) => setKept((known) => JSON.stringify({ ...(JSON.parse(known) as object), [name]: text }))
  const send = () => onAnswer(valueOf(fields, texts))
  // The API names the field at the beginning of what it says.
  const problemOf = (name: string) => problem?.split('; ').find((one) => one.includes(name))
  const isPlaced = fields.some((field) => problemOf(field.name))
  return (
    <form
      className="max-w-xl space-y-3"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      {fields.map((field) => (
        <OneField key={field.name} field={field} text={texts[field.name] ?? ''} onChange={set(field.name)} problem={problemOf(field.name)} onSend={send} isBusy={isBusy} />
      ))}
      {problem && !isPlaced && <p role="alert" className="text-xs text-danger-text">{problem}</p>}
      <Button type="submit" variant="primary" busy={isBusy}>
        Send the answer<Key>Ctrl Enter</Key>
      </Button>
    </form>
  )
}

function OneField({ field, text, onChange, problem, onSend: send, isBusy }: { field: SchemaField; text: string; onChange: (text: string) => void; problem: string | undefined; onSend: () => void; isBusy: boolean }) {
  if (field.kind === 'boolean') {
    return (
      <div>
        <Switch label={field.label} checked={text === 'true'} onChange={(next) => onChange(String(next))} />
        {field.hint && <p className="mt-1 text-xs text-text-3">{field.hint}</p>}
      </div>
    )
  }
  return (
    <Field label={labelOf(field)} hint={field.hint} problem={problem}>
      {(ids) =>
        field.kind === 'choice' ? (
          <Select {...ids} value={text} onChange={(event) => onChange(event.target.value)} options={[{ value: '', label: 'Choose…' }, ...field.options.map((value) => ({ value, label: value }))]} />
        ) : (
          <Input {...ids} inputMode={field.kind === 'text' ? 'text' : 'decimal'} value={text} onChange={(event) => onChange(event.target.value)} onKeyDown={onSend(send, isBusy)} />
        )
      }
    </Field>
  )
}
