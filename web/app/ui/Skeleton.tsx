import { classes } from '~/util/classes'

/** Holds the place of something that is being loaded. */
export const Skeleton = ({ className }: { className?: string }) => <div aria-hidden className={classes('animate-breathe rounded-md bg-sunken', className ?? 'h-4 w-full')} />

export const SkeletonRows = ({ rows = 5 }: { rows?: number }) => (
  <div role="status" aria-label="Loading" className="space-y-2 p-4">
    {Array.from({ length: rows }, (_, index) => (
      <Skeleton key={index} />
    ))}
  </div>
)
