import { Menu as Base } from '@base-ui/react/menu'
import { Check } from 'lucide-react'
import { classes } from '~/util/classes'
import type { MenuProps } from './Menu'

/** A menu that is open when it appears. `Menu` loads it when somebody opens the first one. */
export default function MenuPopup({ trigger, items, label, side = 'bottom', align = 'end' }: MenuProps) {
  return (
    <Base.Root modal={false} defaultOpen>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        {/* A menu of the bar at the top stays where it is while the page below it is scrolled, so a click meets its item. */}
        <Base.Positioner positionMethod="fixed" side={side} align={align} sideOffset={4} className="z-50">
          <Base.Popup aria-label={label} className="animate-rise min-w-44 max-w-80 rounded-lg border border-line bg-raised p-1 shadow-pop outline-none">
            {items.map((item, index) => (
              <Base.Item
                key={index}
                disabled={item.disabledReason !== undefined}
                onClick={item.onSelect}
                className={classes(
                  'flex min-h-7 cursor-default items-center gap-2 rounded-md px-2 py-1 text-sm outline-none select-none data-highlighted:bg-hover',
                  item.danger ? 'text-danger-text' : 'text-text',
                  'data-disabled:text-text-3',
                )}
              >
                {item.icon && <span className="grid w-4 place-items-center">{item.icon}</span>}
                <span className="min-w-0 flex-1">
                  {item.label}
                  {item.disabledReason && <span className="block text-xs text-text-3">{item.disabledReason}</span>}
                </span>
                {item.checked && <Check aria-label="selected" size={14} />}
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}
