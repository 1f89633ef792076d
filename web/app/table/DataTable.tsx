import { useVirtualizer } from '@tanstack/react-virtual'
import { useLocation } from '@tanstack/react-router'
import { type ReactNode, useCallback, useEffect, useRef } from 'react'
import { type Breakpoint, useMinWidths } from '~/hooks/use-min-width'
import { useShortcut } from '~/hooks/use-shortcut'
import { classes } from '~/util/classes'

export type Column<T> = {
  key: string
  head: ReactNode
  /** A width as in `grid-template-columns`; the default is an equal share. */
  width?: string
  align?: 'end'
  /** The column is left out in windows that are narrower. */
  from?: Breakpoint
  cell: (row: T) => ReactNode
}

type Props<T> = {
  label: string
  columns: Column<T>[]
  rows: T[]
  rowKey: (row: T) => string
  /** Opens a row: by Enter, by a click, and by the link in its first cell. */
  onOpen?: (row: T) => void
  isSelected?: (row: T) => boolean
  /** The key `x` on the active row; with Shift, all rows from the last one to this. */
  onToggle?: (row: T, isRange?: boolean) => void
  hasMore?: boolean
  isLoadingMore?: boolean
  onMore?: () => void
  rowHeight?: number
  /** How many rows there are in all, if that is known. */
  total?: number
}

const OVERSCAN = 6

/** The row that was active, for each entry of the history: Back leads to it again. */
const activeRows = new Map<string, string>()

/** A table of any length: at most a screen of rows is in the document. j and k move, Enter opens. */
export function DataTable<T>({ label, columns, rows, rowKey, onOpen, isSelected, onToggle, hasMore, isLoadingMore, onMore, rowHeight = 38, total }: Props<T>) {
  const scroller = useRef<HTMLDivElement>(null)
  // A reference, because keys may be pressed faster than the table is drawn.
  const active = useRef(-1)
  const entry = useLocation({ select: ({ state }) => `${state.__TSR_key ?? ''} ${label}` })
  const isRestored = useRef(false)
  useEffect(() => {
    if (isRestored.current || rows.length === 0) return
    isRestored.current = true
    const key = activeRows.get(entry)
    // The focus stays at the heading of the page; the keys go on from the row.
    if (key !== undefined) active.current = rows.findIndex((row) => rowKey(row) === key)
  }, [rows, rowKey, entry])
  const activate = (index: number, row: T) => {
    active.current = index
    activeRows.set(entry, rowKey(row))
  }
  const widths = useMinWidths()
  const shown = columns.filter((column) => !column.from || widths[column.from])
  const template = shown.map((column) => column.width ?? 'minmax(0, 1fr)').join(' ')
  const virtualizer = useVirtualizer({ count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: OVERSCAN })
  useEffect(() => virtualizer.measure(), [virtualizer, rowHeight])
  const items = virtualizer.getVirtualItems()
  const lastShown = items.at(-1)?.index ?? 0

  useEffect(() => {
    if (hasMore && !isLoadingMore && lastShown >= rows.length - 20) onMore?.()
  }, [hasMore, isLoadingMore, lastShown, rows.length, onMore])

  const move = useCallback(
    (step: number) => {
      const next = Math.max(0, Math.min(rows.length - 1, active.current + step))
      active.current = next
      virtualizer.scrollToIndex(next)
      // The row may not be drawn yet. Only the newest press moves the focus.
      requestAnimationFrame(() => {
        if (active.current === next) scroller.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus()
      })
    },
    [rows.length, virtualizer],
  )
  useShortcut('j', () => move(1), rows.length > 0)
  useShortcut('k', () => move(-1), rows.length > 0)
  const toggle = (isRange: boolean) => {
    const row = rows[active.current]
    if (row !== undefined) onToggle?.(row, isRange)
  }
  useShortcut('x', () => toggle(false), onToggle !== undefined)
  useShortcut('X', () => toggle(true), onToggle !== undefined)

  return (
    <div ref={scroller} className="min-h-0 flex-1 overflow-auto">
      <div role="table" aria-label={label} aria-rowcount={total ?? (hasMore ? -1 : rows.length + 1)} className="min-w-full">
        <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface">
          <div role="row" aria-rowindex={1} className="grid h-8 items-center gap-3 px-4 text-xs font-medium text-text-2" style={{ gridTemplateColumns: template }}>
            {shown.map((column) => (
              <div key={column.key} role="columnheader" className={classes('truncate', column.align === 'end' && 'text-right')}>
                {column.head}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: virtualizer.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index]
            if (row === undefined) return null
            return (
              <div
                key={rowKey(row)}
                role="row"
                aria-rowindex={item.index + 2}
                data-index={item.index}
                data-row
                tabIndex={-1}
                onFocus={() => activate(item.index, row)}
                onClick={(event) => !(event.target as HTMLElement).closest('a,button,input,label') && onOpen?.(row)}
                onKeyDown={(event) => {
                  if (event.target !== event.currentTarget) return
                  if (event.key === 'Enter') onOpen?.(row)
                  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
                    event.preventDefault()
                    move(event.key === 'ArrowDown' ? 1 : -1)
                  }
                }}
                className={classes(
                  'absolute inset-x-0 top-0 grid items-center gap-3 border-b border-line px-4 text-sm -outline-offset-2',
                  onOpen && 'cursor-pointer',
                  isSelected?.(row) ? 'bg-selected' : 'hover:bg-hover',
                )}
                style={{ gridTemplateColumns: template, height: item.size, transform: `translateY(${item.start}px)` }}
              >
                {shown.map((column) => (
                  <div key={column.key} role="cell" className={classes('min-w-0 truncate', column.align === 'end' && 'text-right')}>
                    {column.cell(row)}
                  </div>
                ))}
              </div>
            )
          })}
        </div>
      </div>
      {isLoadingMore && <p className="p-3 text-center text-text-3">Loading more…</p>}
    </div>
  )
}
