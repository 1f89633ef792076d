import type { ReactNode } from 'react'
import { type Breakpoint, useMinWidths } from '~/hooks/use-min-width'
import { classes } from '~/util/classes'

export type ListColumn<T> = {
  key: string
  head: ReactNode
  align?: 'end'
  /** The column is left out in windows that are narrower. */
  from?: Breakpoint
  /** Classes of its cells, such as a width. */
  className?: string
  cell: (row: T) => ReactNode
}

/** A table of a length that fits a page. Long lists use `DataTable`. */
export function ListTable<T>({ label, columns, rows, rowKey }: { label: string; columns: ListColumn<T>[]; rows: T[]; rowKey: (row: T) => string }) {
  const widths = useMinWidths()
  const shown = columns.filter((column) => !column.from || widths[column.from])
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
          <tr key={rowKey(row)} className="border-b border-line align-top last:border-0 hover:bg-hover">
            {shown.map((column) => (
              <td key={column.key} className={classes('px-2 py-2 break-words first:pl-4 last:pr-4', column.align === 'end' && 'text-right', column.className)}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
