import type { ReactNode } from 'react'
import { useTitle } from '~/hooks/use-title'
import { classes } from '~/util/classes'

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

/** A name that somebody else chose, as long as it may be: three lines of it are seen, and all of it is read out. */
export const LongTitle = ({ text }: { text: string }) => (
  <span title={text.length > 80 ? text : undefined} className="line-clamp-3 min-w-0">
    {text}
  </span>
)

/** The heading of a page. It gets the focus after a navigation, so that screen readers say where they are. */
export function PageHeader({ title, heading, description, above, actions }: Props) {
  useTitle(title)
  const isOfOne = above !== undefined
  return (
    // On the page of one thing, its buttons are in the same place however long its name and its description are.
    <header className={classes('flex flex-wrap justify-between gap-x-4 gap-y-3 pb-4', isOfOne ? 'items-start' : 'items-end')}>
      <div className={classes('min-w-0', isOfOne && 'grow basis-48')}>
        {above && <div className="mb-1 text-xs text-text-2">{above}</div>}
        <h1 tabIndex={-1} className="text-xl font-semibold tracking-tight wrap-anywhere">
          {heading ?? title}
        </h1>
        {description && <p className="mt-0.5 max-w-2xl break-words text-text-2">{description}</p>}
      </div>
      {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  )
}
