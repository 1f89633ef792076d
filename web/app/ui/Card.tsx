import { type ReactNode, type Ref, useId } from 'react'
import { classes } from '~/util/classes'

type Props = { title?: ReactNode; action?: ReactNode; children: ReactNode; flush?: boolean; className?: string; /** With it, the section can be given the focus. */ ref?: Ref<HTMLElement> }

/** A section with a heading. `flush` leaves the padding to the content, as for lists. */
export function Card({ title, action, children, flush, className, ref }: Props) {
  const id = useId()
  return (
    <section ref={ref} tabIndex={ref ? -1 : undefined} aria-labelledby={title ? id : undefined} className={classes('flex min-w-0 flex-col rounded-lg border border-line bg-surface shadow-card', className)}>
      {title && (
        <header className="flex min-h-11 items-center justify-between gap-3 border-b border-line px-4 py-1.5">
          <h2 id={id} className="text-sm font-semibold">
            {title}
          </h2>
          {action}
        </header>
      )}
      <div className={classes('min-w-0 flex-1', !flush && 'p-4')}>{children}</div>
    </section>
  )
}
