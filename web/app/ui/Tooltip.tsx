import { Tooltip as Base } from '@base-ui/react/tooltip'
import type { ReactElement, ReactNode } from 'react'

export const TooltipProvider = Base.Provider

/** Shows `text` when the pointer rests on the child or the child has the focus. The child has to take a ref. */
export function Tooltip({ text, children, side = 'top' }: { text: ReactNode; children: ReactElement; side?: 'top' | 'right' | 'bottom' | 'left' }) {
  if (!text) return children
  return (
    <Base.Root>
      <Base.Trigger render={children} />
      <Base.Portal>
        <Base.Positioner side={side} sideOffset={6} className="z-50">
          <Base.Popup className="animate-rise max-w-72 rounded-md border border-line bg-raised px-2 py-1 text-xs text-text shadow-pop">{text}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}
