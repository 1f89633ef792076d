import { Check, Pencil, X } from 'lucide-react'
import { type ReactNode, useRef, useState } from 'react'
import { forgetDrafts, hasDraft, useDraft } from '~/hooks/use-draft'
import { useShortcut } from '~/hooks/use-shortcut'
import { Button } from '~/ui/Button'
import { Field, Textarea } from '~/ui/Field'
import { hasParts, jsonText, parseJson } from '~/util/json'
import type { Approval } from './inbox-state'
import { type Decide, problemsOf } from './use-decide'

export const Key = ({ children }: { children: ReactNode }) => (
  <kbd aria-hidden className="ml-1 hidden rounded-sm border border-current/40 px-1 font-sans text-2xs leading-4 lg:inline">
    {children}
  </kbd>
)

/** Sends the form of a field with Ctrl+Enter: once, however long the keys are held, and not while it is being sent. */
export const onSend = (send: () => void, isBusy: boolean) => (event: React.KeyboardEvent) => {
  if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
  event.preventDefault()
  if (!isBusy && !event.repeat) send()
}

type Mode = 'edit' | 'deny' | undefined

type Props = { item: Approval; decide: Decide; /** Which form is open at first. */ initial?: Mode; /** Outside of the inbox: without its keys and its place at the bottom. */ inPlace?: boolean }

export function ApprovalForm({ item, decide, initial, inPlace = false }: Props) {
  const nameOf = (mode: Exclude<Mode, undefined>) => `${item.id} ${mode}`
  // A form that was left with text is open again, and does not take the focus from the list of requests.
  const [{ mode, isNew }, setState] = useState<{ mode: Mode; isNew: boolean }>(() => ({ mode: initial ?? (['deny', 'edit'] as const).find((one) => hasDraft(nameOf(one))), isNew: initial !== undefined }))
  const setMode = (next: Mode) => setState({ mode: next, isNew: true })
  const close = (closed: Exclude<Mode, undefined>) => {
    forgetDrafts(nameOf(closed))
    setMode(undefined)
  }
  const approve = useRef<HTMLButtonElement>(null)
  // One key shows what Enter will do: no single key approves a call.
  useShortcut('a', () => approve.current?.focus(), !inPlace)
  useShortcut('e', () => setMode('edit'), !inPlace)
  useShortcut('d', () => setMode('deny'), !inPlace)
  return (
    <div className={inPlace ? 'space-y-4' : 'sticky bottom-0 -mx-4 -mb-4 max-h-[70vh] space-y-4 overflow-auto border-t border-line bg-surface px-4 py-3 lg:-mx-6 lg:-mb-6 lg:px-6'}>
      <div className="flex flex-wrap gap-2">
        <Button ref={approve} variant="primary" icon={<Check aria-hidden size={14} />} busy={decide.isPending} onClick={() => decide.mutate({ decision: 'approve', told: 'The call was approved.' })}>
          Approve{!inPlace && <Key>a</Key>}
        </Button>
        <Button icon={<Pencil aria-hidden size={14} />} aria-expanded={mode === 'edit'} onClick={() => setMode(mode === 'edit' ? undefined : 'edit')}>
          Edit the input{!inPlace && <Key>e</Key>}
        </Button>
        <Button icon={<X aria-hidden size={14} />} aria-expanded={mode === 'deny'} onClick={() => setMode(mode === 'deny' ? undefined : 'deny')}>
          Deny{!inPlace && <Key>d</Key>}
        </Button>
      </div>
      {mode === 'edit' && <EditForm item={item} decide={decide} draft={nameOf('edit')} autoFocus={isNew} onClose={() => close('edit')} />}
      {mode === 'deny' && <DenyForm decide={decide} draft={nameOf('deny')} autoFocus={isNew} onClose={() => close('deny')} />}
    </div>
  )
}

/** Reads an object from JSON, or says what is wrong with it. */
function parseObject(text: string): { value: Record<string, unknown> } | { problem: string } {
  try {
    const value: unknown = parseJson(text)
    if (!hasParts(value) || Array.isArray(value)) return { problem: 'The input of a tool is an object: { … }.' }
    return { value: value as Record<string, unknown> }
  } catch (error) {
    return { problem: `This is no JSON: ${(error as Error).message}` }
  }
}

/** `draft` is the name under which its text is kept until it is sent or given up. */
type FormProps = { decide: Decide; draft: string; autoFocus?: boolean; onClose: () => void }

function EditForm({ item, decide, draft, autoFocus, onClose }: FormProps & { item: Approval }) {
  const [text, setText] = useDraft(draft, jsonText(item.input, 2))
  const parsed = parseObject(text)
  const problem = 'problem' in parsed ? parsed.problem : problemsOf(decide.error).editedInput
  const send = () => 'value' in parsed && decide.mutate({ decision: 'approve', editedInput: parsed.value, told: 'The call was approved with the changed input.' })
  return (
    <form
      className="space-y-3 rounded-md border border-line p-3"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <Field label="Input of the call" hint="The call is made with this instead. The record of the run has both." problem={problem}>
        {(ids) => (
          <Textarea
            {...ids}
            autoFocus={autoFocus}
            rows={Math.min(18, text.split('\n').length + 1)}
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              if (decide.error) decide.reset()
            }}
            onKeyDown={onSend(send, decide.isPending)}
            className="font-mono text-xs!"
          />
        )}
      </Field>
      <div className="flex flex-wrap gap-2">
        <Button type="submit" variant="primary" busy={decide.isPending} disabledReason={'problem' in parsed ? parsed.problem : undefined}>
          Approve with this input<Key>Ctrl Enter</Key>
        </Button>
        <Button onClick={onClose}>Leave it as it is</Button>
      </div>
    </form>
  )
}

/** Denies a call, or leaves a question unanswered, with a reason that the agent reads. */
export function DenyForm({ decide, draft, autoFocus, onClose, action = 'Deny the call', told = 'The call was denied.' }: FormProps & { action?: string; told?: string }) {
  const [reason, setReason] = useDraft(draft)
  const send = () => decide.mutate({ decision: 'deny', ...(reason.trim() && { reason: reason.trim() }), told })
  return (
    <form
      className="space-y-3 rounded-md border border-line p-3"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <Field label="Reason" hint="The agent reads it and goes on without the call." problem={problemsOf(decide.error).reason}>
        {(ids) => <Textarea {...ids} autoFocus={autoFocus} rows={2} value={reason} onChange={(event) => setReason(event.target.value)} onKeyDown={onSend(send, decide.isPending)} />}
      </Field>
      <div className="flex flex-wrap gap-2">
        <Button type="submit" variant="danger" busy={decide.isPending}>
          {action}<Key>Ctrl Enter</Key>
        </Button>
        <Button onClick={onClose}>Leave it open</Button>
      </div>
    </form>
  )
}
