import type { ReactNode } from 'react'
import { useTitle } from '~/hooks/use-title'

type Props = {
  /** The name of the page, also for the title of the window. */
  title: string
  /** What is shown instead of the title, such as a name with its status. */
  heading?: ReactNode
  description?: ReactNode
  /** Links to the pages above this one. */
  above?: ReactNode
  actions?: ReactNode
}

/** The heading of a page. It gets the focus after a navigation, so that screen readers say where they are. */
export function PageHeader({ title, heading, description, above, actions }: Props) {
  useTitle(title)
  return (
    <header className="flex flex-wrap items-end justify-between gap-x-4 gap-y-3 pb-4">
      <div className="min-w-0">
        {above && <div className="mb-1 text-xs text-text-2">{above}</div>}
        <h1 tabIndex={-1} className="text-xl font-semibold tracking-tight">
          {heading ?? title}
        </h1>
        {description && <p className="mt-0.5 max-w-2xl text-text-2">{description}</p>}
      </div>
      {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  )
}
