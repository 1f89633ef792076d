import type { ReactNode } from 'react'

/** Facts as pairs of a name and a value. Absent values are left out. */
export function KeyValue({ items }: { items: [name: string, value: ReactNode][] }) {
  return (
    <dl className="grid grid-cols-[fit-content(40%)_minmax(0,1fr)] gap-x-4 gap-y-1.5 text-sm">
      {items
        .filter(([, value]) => value !== null && value !== undefined && value !== false)
        .map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="min-w-20 text-text-2 wrap-anywhere sm:min-w-28">{name}</dt>
            <dd className="min-w-0 break-words text-text">{value}</dd>
          </div>
        ))}
    </dl>
  )
}
