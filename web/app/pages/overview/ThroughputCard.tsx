import { useQuery } from '@tanstack/react-query'
import { runStatsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { RunStats } from '~/api/types'
import type { Tone } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { type Bar, BarChart } from '~/ui/Charts'
import { ErrorState } from '~/ui/ErrorState'
import { Skeleton } from '~/ui/Skeleton'
import { classes } from '~/util/classes'
import { formatCount } from '~/util/format'

const HOUR = 3_600_000
const SERIES: { label: string; tone: Tone; statuses: string[] }[] = [
  { label: 'Completed', tone: 'ok', statuses: ['completed'] },
  { label: 'Failed', tone: 'fail', statuses: ['failed'] },
  { label: 'Paused or cancelled', tone: 'pause', statuses: ['paused', 'cancelled'] },
  { label: 'In progress', tone: 'run', statuses: ['queued', 'running'] },
  { label: 'Waiting', tone: 'wait', statuses: ['waiting'] },
]

const sum = (counts: Record<string, number>, statuses: string[]) => statuses.reduce((total, status) => total + (counts[status] ?? 0), 0)

/** One bar for each hour, also for those without a run. */
function toBars(stats: RunStats): Bar[] {
  const byHour = new Map(stats.byHour.map((hour) => [Date.parse(hour.hour), hour.byStatus]))
  const last = Math.floor(Date.parse(stats.until) / HOUR) * HOUR
  return Array.from({ length: 24 }, (_, index) => {
    const at = last - (23 - index) * HOUR
    const counts = byHour.get(at) ?? {}
    const parts = SERIES.map(({ tone, statuses }) => ({ tone, value: sum(counts, statuses) }))
    const time = new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })
    const words = SERIES.map(({ label, statuses }) => `${sum(counts, statuses)} ${label.toLowerCase()}`)
    return { key: String(at), label: `${time}: ${words.join(', ')}`, parts }
  })
}

export function ThroughputCard() {
  const { allowed, reason } = useScope('admin:read')
  const { data, error, refetch } = useQuery({ ...runStatsQuery, enabled: allowed })
  return (
    <Card title="Runs created in the last 24 hours" action={data && <span className="text-xs text-text-2">{formatCount(data.total)} in all</span>}>
      {!allowed ? (
        <p className="text-text-2">{reason}</p>
      ) : error ? (
        <ErrorState error={error} what="The counts could not be loaded." onRetry={() => void refetch()} />
      ) : !data ? (
        <Skeleton className="h-24 w-full" />
      ) : (
        <>
          <BarChart bars={toBars(data)} summary={`${data.total} runs in 24 hours, by hour and status`} />
          <div className="mt-1 flex justify-between text-2xs text-text-3" aria-hidden>
            <span>24 h ago</span>
            <span>12 h ago</span>
            <span>now</span>
          </div>
          <ul className="mt-3 flex flex-wrap gap-x-4 gap-y-1 text-xs text-text-2">
            {SERIES.map((series) => (
              <li key={series.label} className="flex items-center gap-1.5">
                <span aria-hidden className={classes('size-2 rounded-full', `bg-${series.tone}-fill`)} />
                {series.label}
                <span className="font-medium text-text">{formatCount(sum(data.byStatus, series.statuses))}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  )
}
