import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleCheck, CirclePlay, CircleX, Hourglass, Inbox, type LucideIcon } from 'lucide-react'
import { pendingQuery, runStatsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { RawSearch } from '~/hooks/use-url-state'
import type { Tone } from '~/ui/Badge'
import { Skeleton } from '~/ui/Skeleton'
import { classes } from '~/util/classes'
import { formatCompact, formatSeen } from '~/util/format'
import { IN_PROGRESS } from '../runs/run-filters'

type Tile = { label: string; note: string; value: number | undefined; tone: Tone; icon: LucideIcon; to: string; search?: RawSearch; /** There are more than were counted. */ hasMore?: boolean; /** Why the count cannot be known. */ unknown?: string | undefined }

/** The five counts that say at a glance how it stands. Each leads to the list behind it. */
export function SummaryTiles() {
  const decides = useScope('approvals:decide')
  const reads = useScope('admin:read')
  const pending = useQuery({ ...pendingQuery, enabled: decides.allowed }).data
  const stats = useQuery({ ...runStatsQuery, enabled: reads.allowed }).data
  const count = (...statuses: string[]) => stats && statuses.reduce((sum, status) => sum + (stats.byStatus[status] ?? 0), 0)
  // What has not ended counts whenever it was created: a run may wait for days.
  const active = (...statuses: string[]) => stats && statuses.reduce((sum, status) => sum + (stats.active?.[status] ?? 0), 0)
  const day = { since: '24h' }
  const unknown = reads.reason
  const tiles: Tile[] = [
    { label: 'Needs you', note: 'open requests', value: pending?.items.length, hasMore: Boolean(pending?.cursor), tone: 'wait', icon: Inbox, to: '/inbox', unknown: decides.reason },
    { label: 'In progress', note: 'queued or running now', value: active('queued', 'running'), tone: 'run', icon: CirclePlay, to: '/runs', search: { status: IN_PROGRESS }, unknown },
    { label: 'Waiting', note: 'for a person now', value: active('waiting'), tone: 'wait', icon: Hourglass, to: '/runs', search: { status: 'waiting' }, unknown },
    { label: 'Failed', note: 'in 24 hours', value: count('failed'), tone: 'fail', icon: CircleX, to: '/runs', search: { status: 'failed', ...day }, unknown },
    { label: 'Completed', note: 'in 24 hours', value: count('completed'), tone: 'ok', icon: CircleCheck, to: '/runs', search: { status: 'completed', ...day }, unknown },
  ]
  return (
    <ul className="grid grid-cols-2 gap-3 sm:grid-cols-5">
      {tiles.map((tile) => (
        <li key={tile.label} className="max-sm:first:col-span-2">
          <Link to={tile.to} search={tile.search ?? {}} className="block rounded-lg border border-line bg-surface px-4 py-3 shadow-card hover:border-line-strong">
            <span className="flex items-center gap-1.5 text-xs font-medium text-text-2">
              <tile.icon aria-hidden size={14} className={`text-${tile.tone}`} />
              {tile.label}
            </span>
            <span className="mt-1 block text-2xl font-semibold tracking-tight">
              {tile.unknown ? (
                <span title={tile.unknown} className="text-text-3">
                  <span aria-hidden>–</span>
                  <span className="sr-only">{tile.unknown}</span>
                </span>
              ) : tile.value === undefined ? (
                <Skeleton className="my-1 h-6 w-12" />
              ) : (
                <span className={classes(tile.value === 0 && 'text-text-3')}>{tile.hasMore ? formatSeen(tile.value, true) : formatCompact(tile.value)}</span>
              )}
            </span>
            <span className="text-xs text-text-3">{tile.note}</span>
          </Link>
        </li>
      ))}
    </ul>
  )
}
