import type { ReactNode } from 'react'

/** The surface that lists and filters of a page lie on. */
export const Panel = ({ children }: { children: ReactNode }) => <div className="overflow-hidden rounded-lg border border-line bg-surface shadow-card">{children}</div>
