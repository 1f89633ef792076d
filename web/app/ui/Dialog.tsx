import { Dialog as Base } from '@base-ui/react/dialog'
import { X } from 'lucide-react'
import { type KeyboardEvent, type ReactNode, useRef, useState } from 'react'
import { useRevealedProblem } from '~/hooks/use-revealed-problem'
import { useUnsaved } from '~/hooks/use-unsaved'
import { classes } from '~/util/classes'
import { Button, IconButton } from './Button'
import { submits } from './submits'

type Props = {
  open: boolean
  onClose: () => void
  title: ReactNode
  description?: ReactNode
  children?: ReactNode
  /** The buttons at the bottom; the one that acts comes last, and has the type `submit` if there is `onSubmit`. */
  footer?: ReactNode
  /** What the button of the type `submit` and Enter in a field do. The dialog is a form then. */
  onSubmit?: () => void
  size?: 'sm' | 'md' | 'lg'
  /** What was typed is not needed any more, so that closing does not ask. */
  isSaved?: boolean | undefined
  /** It shows what cannot be shown again: only its buttons close it. */
  isKept?: boolean | undefined
}

const WIDTHS = { sm: 'sm:max-w-md', md: 'sm:max-w-xl', lg: 'sm:max-w-4xl' }

/** Enter that is held submits once: the next submission may do something that nobody has seen yet. */
function ignoreHeld(event: KeyboardEvent) {
  if (event.key === 'Enter' && event.repeat && event.target instanceof HTMLInputElement) event.preventDefault()
}

/** Escape and a click beside it ask before they discard what was typed. Its buttons say what they do, so they do not. */
export function Dialog({ open, onClose, title, description, children, footer, onSubmit, size = 'md', isSaved, isKept }: Props) {
  const popup = useRef<HTMLDivElement>(null)
  const { form, onSent, onTyped } = useRevealedProblem<HTMLDivElement>()
  // The field that was changed last. What is typed to search is not part of a form.
  const changed = useRef<HTMLElement>(null)
  const [isChanged, setChanged] = useState(false)
  const [asked, setAsks] = useState(false)
  useUnsaved('dialog', open && (isKept || (isChanged && !isSaved)) === true)
  const asks = asked && !isSaved && !isKept
  const keep = () => {
    setAsks(false)
    const field = changed.current
    ;(field?.isConnected ? field : popup.current)?.focus()
  }
  const onOpenChange = (next: boolean, reason: string) => {
    if (next || isKept) return
    if (!changed.current || isSaved) onClose()
    else if (!asks) setAsks(true)
    else if (reason === 'escape-key') keep()
  }
  const noteChange = ({ target }: { target: EventTarget }) => {
    onTyped()
    if ((target as HTMLInputElement).type === 'search') return
    changed.current = target as HTMLElement
    setChanged(true)
  }
  const submit = () => {
    if (asks) return
    onSent()
    onSubmit?.()
  }
  const content = (
    <>
      {children && <div ref={form} data-body onInput={noteChange} className="min-h-0 flex-1 overflow-auto px-4 py-2">{children}</div>}
      {asks ? (
        <div role="alertdialog" aria-label="Discard what you wrote?" className="flex flex-wrap items-center justify-end gap-2 px-4 pt-2 pb-4">
          <p className="mr-auto font-medium">Discard what you wrote?</p>
          <Button autoFocus onClick={keep}>Keep</Button>
          <Button variant="danger" onClick={onClose}>Discard</Button>
        </div>
      ) : footer && <footer className="flex flex-wrap justify-end gap-2 px-4 pt-2 pb-4">{footer}</footer>}
    </>
  )
  return (
    <Base.Root
      open={open}
      onOpenChange={(next, { reason }) => onOpenChange(next, reason)}
      onOpenChangeComplete={(isOpen) => {
        if (isOpen) return
        changed.current = null
        setChanged(false)
        setAsks(false)
      }}
    >
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
        <Base.Popup
          ref={popup}
          onKeyDown={ignoreHeld}
          initialFocus={(type) => (type === 'touch' ? null : popup.current?.querySelector<HTMLElement>('[data-body] :is(input, select, textarea):not(:disabled)')) ?? popup.current}
          className={classes(
            'animate-rise fixed inset-x-3 top-[8vh] z-50 mx-auto flex max-h-[84vh] flex-col rounded-xl border border-line bg-raised text-text shadow-pop outline-none',
            WIDTHS[size],
          )}
        >
          <header className="flex items-start gap-3 px-4 pt-4 pb-2">
            <div className="min-w-0 flex-1">
              <Base.Title className="text-base font-semibold">{title}</Base.Title>
              {description && <Base.Description className="mt-0.5 text-text-2">{description}</Base.Description>}
            </div>
            <IconButton label="Close" size="sm" onClick={onClose}>
              <X aria-hidden size={16} />
            </IconButton>
          </header>
          {onSubmit ? <form noValidate className="contents" onSubmit={submits(submit)}>{content}</form> : content}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
