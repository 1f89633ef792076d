import { Tooltip as Base } from '@base-ui/react/tooltip'
import { type ReactElement, type ReactNode, useState } from 'react'

export const TooltipProvider = Base.Provider

/**
 * Shows `text` when the pointer rests on the child or the child has the focus. No pointer rests on a touch screen: there, a
 * tap on a control that is disabled says why. The child has to take a ref.
 */
export function Tooltip({ text, children, side = 'top' }: { text: ReactNode; children: ReactElement; side?: 'top' | 'right' | 'bottom' | 'left' }) {
  const [open, setOpen] = useState(false)
  if (!text) return children
  return (
    <Base.Root open={open} onOpenChange={setOpen}>
      {/* A disabled button keeps its clicks to itself. */}
      <Base.Trigger render={children} onPointerUp={({ currentTarget }) => currentTarget.ariaDisabled && setOpen(true)} />
      <Base.Portal>
        <Base.Positioner side={side} sideOffset={6} className="z-50">
          <Base.Popup className="animate-rise max-w-72 rounded-md border border-line bg-raised px-2 py-1 text-xs text-text shadow-pop">{text}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}
