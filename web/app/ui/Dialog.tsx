import { Dialog as Base } from '@base-ui/react/dialog'
import { X } from 'lucide-react'
import { type ReactNode, useRef, useState } from 'react'
import { classes } from '~/util/classes'
import { Button, IconButton } from './Button'

type Props = {
  open: boolean
  onClose: () => void
  title: ReactNode
  description?: ReactNode
  children?: ReactNode
  /** The buttons at the bottom; the one that acts comes last. */
  footer?: ReactNode
  size?: 'sm' | 'md' | 'lg'
  /** What was typed is not needed any more, so that closing does not ask. */
  isSaved?: boolean | undefined
}

const WIDTHS = { sm: 'sm:max-w-md', md: 'sm:max-w-xl', lg: 'sm:max-w-4xl' }

/** Escape and a click beside it ask before they discard what was typed. Its buttons say what they do, so they do not. */
export function Dialog({ open, onClose, title, description, children, footer, size = 'md', isSaved }: Props) {
  const popup = useRef<HTMLDivElement>(null)
  // The field that was changed last. What is typed to search is not part of a form.
  const changed = useRef<HTMLElement>(null)
  const [asks, setAsks] = useState(false)
  const keep = () => {
    setAsks(false)
    const field = changed.current
    ;(field?.isConnected ? field : popup.current)?.focus()
  }
  const onOpenChange = (next: boolean, reason: string) => {
    if (next) return
    if (!changed.current || isSaved) onClose()
    else if (!asks) setAsks(true)
    else if (reason === 'escape-key') keep()
  }
  return (
    <Base.Root
      open={open}
      onOpenChange={(next, { reason }) => onOpenChange(next, reason)}
      onOpenChangeComplete={(isOpen) => {
        if (isOpen) return
        changed.current = null
        setAsks(false)
      }}
    >
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
        <Base.Popup
          ref={popup}
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
          {children && <div data-body onInput={({ target }) => (target as HTMLInputElement).type !== 'search' && (changed.current = target as HTMLElement)} className="min-h-0 flex-1 overflow-auto px-4 py-2">{children}</div>}
          {asks ? (
            <div role="alertdialog" aria-label="Discard what you wrote?" className="flex flex-wrap items-center justify-end gap-2 px-4 pt-2 pb-4">
              <p className="mr-auto font-medium">Discard what you wrote?</p>
              <Button autoFocus onClick={keep}>Keep</Button>
              <Button variant="danger" onClick={onClose}>Discard</Button>
            </div>
          ) : footer && <footer className="flex flex-wrap justify-end gap-2 px-4 pt-2 pb-4">{footer}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
