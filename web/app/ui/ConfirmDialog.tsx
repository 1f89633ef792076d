import type { ReactNode } from 'react'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { InlineError } from './ErrorState'

type Props = {
  open: boolean
  onClose: () => void
  onConfirm: () => void
  title: string
  /** What will happen, and whether it can be undone. */
  children: ReactNode
  /** What the button does, as a verb with its object: "Cancel 3 runs". */
  action: string
  danger?: boolean
  busy?: boolean
  error?: unknown
  disabledReason?: string | undefined
}

export function ConfirmDialog({ open, onClose, onConfirm, title, children, action, danger, busy, error, disabledReason }: Props) {
  return (
    <Dialog
      open={open}
      onClose={onClose}
      onSubmit={onConfirm}
      title={title}
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button variant={danger ? 'danger' : 'primary'} busy={busy} disabledReason={disabledReason} type="submit">
            {action}
          </Button>
        </>
      }
    >
      <div className="space-y-3 text-text-2">{children}</div>
      {error ? <InlineError error={error} /> : null}
    </Dialog>
  )
}
