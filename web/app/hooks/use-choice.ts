import { type KeyboardEvent, type MouseEvent, useId, useState } from 'react'

type Choice = { id: string; disabledReason?: string | undefined }

/**
 * A list below a field, of which the arrow keys choose one and Enter takes it, while the focus stays in the field. The
 * choice is known by its id, because results that arrive later move the entries. Until a person chooses, it is the first
 * one that can be taken. Returns the attributes of the field, of the list and of each entry.
 */
export function useChoice<T extends Choice>(entries: readonly T[], onTake: (entry: T) => void, isOpen = true) {
  const [chosen, choose] = useState<string>()
  const id = useId()
  const known = entries.findIndex((entry) => entry.id === chosen)
  const index = known >= 0 ? known : Math.max(0, entries.findIndex((entry) => entry.disabledReason === undefined))
  const current = isOpen ? entries[index] : undefined
  const take = (entry: T | undefined) => entry && entry.disabledReason === undefined && onTake(entry)
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step) choose(entries[(index + step + entries.length) % entries.length]?.id)
    else if (event.key === 'Enter') take(current)
    else return
    event.preventDefault()
  }
  return {
    forget: () => choose(undefined),
    onKeyDown,
    field: { role: 'combobox', 'aria-expanded': isOpen, 'aria-controls': isOpen ? `${id}-list` : undefined, 'aria-activedescendant': current && `${id}-${index}`, autoComplete: 'off' },
    list: { id: `${id}-list`, role: 'listbox' },
    entry: (entry: T, position: number) => ({
      id: `${id}-${position}`,
      role: 'option',
      tabIndex: -1,
      'aria-selected': position === index,
      'aria-disabled': entry.disabledReason !== undefined || undefined,
      ref: (element: HTMLElement | null) => {
        if (position === index) element?.scrollIntoView({ block: 'nearest' })
      },
      // The focus stays in the field.
      onMouseDown: (event: MouseEvent) => event.preventDefault(),
      onPointerMove: () => choose(entry.id),
      onClick: () => take(entry),
    }),
  } as const
}
