import type { ReactNode } from 'react'
import { type Breakpoint, useMinWidths } from '~/hooks/use-min-width'
import { classes } from '~/util/classes'

export type ListColumn<T> = {
  key: string
  head: ReactNode
  align?: 'end'
  /** The column is left out in windows that are narrower. */
  from?: Breakpoint
  /** Where the column is left out, what it says stands below the first column. */
  below?: boolean
  /** Classes of its cells, such as a width. */
  className?: string
  cell: (row: T) => ReactNode
}

const reveal = (row: HTMLElement | null) => row?.scrollIntoView({ block: 'nearest' })

/** A table of a length that fits a page. Long lists use `DataTable`. `current` is the key of the row that a link led to. */
export function ListTable<T>({ label, columns, rows, rowKey, current }: { label: string; columns: ListColumn<T>[]; rows: T[]; rowKey: (row: T) => string; current?: string | undefined }) {
  const widths = useMinWidths()
  const shown = columns.filter((column) => !column.from || widths[column.from])
  const below = columns.filter((column) => column.below && !shown.includes(column))
  return (
    <table aria-label={label} className="w-full text-sm">
      <thead>
        <tr className="border-b border-line text-left text-xs text-text-2">
          {shown.map((column) => (
            <th key={column.key} scope="col" className={classes('h-8 px-2 font-medium first:pl-4 last:pr-4', column.align === 'end' && 'text-right')}>
              {column.head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)} {...(rowKey(row) === current && { 'aria-current': true, ref: reveal })} className="border-b border-line align-top last:border-0 hover:bg-hover aria-[current=true]:bg-selected">
            {shown.map((column, index) => (
              // Names are as long as somebody made them: they must not make the table wider than its page, and other
              // columns must not make them so narrow that every word is broken.
              <td key={column.key} className={classes('px-2 py-2 first:pl-4 last:pr-4', index === 0 ? `wrap-anywhere ${column.className?.includes('min-w-') ? '' : 'min-w-32'}` : 'break-words', column.align === 'end' && 'text-right', column.className)}>
                {column.cell(row)}
                {index === 0 && below.map((one) => (
                  <div key={one.key} className="mt-1 text-xs text-text-2">
                    {one.head}: {one.cell(row)}
                  </div>
                ))}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
