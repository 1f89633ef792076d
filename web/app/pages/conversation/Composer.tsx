import { SendHorizontal, Square } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { forgetDrafts, useDraft } from '~/hooks/use-draft'
import { Button } from '~/ui/Button'
import { classes } from '~/util/classes'

type Props = {
  label: string
  placeholder: string
  initial?: string
  /** Sends a text; the field is cleared when it is done. */
  onSend: (text: string) => Promise<unknown>
  /** The text was changed. */
  onEdit?: () => void
  onStop?: (() => void) | undefined
  onCancel?: (() => void) | undefined
  isSending: boolean
  disabledReason?: string | undefined
  sendLabel?: string
  autoFocus?: boolean
  /** The name under which the text is kept until it is sent. */
  draft?: string
}

/** The field for a message. Enter sends, Shift and Enter begin a line, Escape stops the answer. */
export function Composer({ label, placeholder, initial = '', onSend, onEdit, onStop, onCancel, isSending, disabledReason, sendLabel = 'Send', autoFocus, draft }: Props) {
  const [text, setText] = useDraft(draft, initial)
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    if (autoFocus) field.current?.focus()
  }, [autoFocus])
  useEffect(() => {
    const element = field.current
    if (!element) return
    element.style.height = 'auto'
    element.style.height = `${Math.min(220, element.scrollHeight + 2)}px`
  }, [text])
  // `isSending` is known with the next drawing, and Enter may be pressed again before it.
  const isSent = useRef(false)
  const send = () => {
    const message = text.trim()
    if (!message || isSending || isSent.current || disabledReason) return
    isSent.current = true
    void onSend(message)
      .then(
        () => {
          setText((now) => (now.trim() === message ? '' : now))
          // The field may be gone meanwhile.
          if (draft) forgetDrafts(draft, message)
        },
        () => undefined,
      )
      .finally(() => (isSent.current = false))
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
      className="rounded-lg border border-line-strong bg-surface p-2 shadow-card focus-within:border-accent"
    >
      <textarea
        ref={field}
        rows={1}
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          onEdit?.()
        }}
        onKeyDown={(event) => {
          if (event.key === 'Escape') (onStop ?? onCancel)?.()
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
          event.preventDefault()
          send()
        }}
        className="block w-full resize-none bg-transparent px-1.5 py-1 text-base leading-6 outline-none placeholder:text-text-3"
      />
      <div className="mt-1 flex items-center gap-2">
        <span className={classes('mr-auto px-1.5 text-xs text-text-3', !onStop && 'max-sm:invisible')}>{onStop ? 'Esc stops the answer' : 'Enter sends, Shift+Enter begins a line'}</span>
        {onCancel && <Button size="sm" onClick={onCancel}>Keep as it is</Button>}
        {onStop && (
          <Button size="sm" icon={<Square aria-hidden size={12} />} onClick={onStop}>
            Stop
          </Button>
        )}
        <Button size="sm" type="submit" variant="primary" busy={isSending} disabledReason={disabledReason ?? (text.trim() ? undefined : 'Write a message first.')} icon={<SendHorizontal aria-hidden size={14} />}>
          {sendLabel}
        </Button>
      </div>
    </form>
  )
}
