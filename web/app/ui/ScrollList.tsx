import type { ReactNode } from 'react'

/** A list that scrolls when it is long. The keyboard reaches it, also when nothing in it takes the focus. */
export function ScrollList({ label, className, children }: { label: string; className: string; children: ReactNode }) {
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <ul aria-label={label} tabIndex={0} className={`overflow-auto ${className}`}>
      {children}
    </ul>
  )
}
