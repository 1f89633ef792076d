import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleCheck, CirclePlay } from 'lucide-react'
import type { ReactNode } from 'react'
import { recentRunsQuery, type RunFilters } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Run } from '~/api/types'
import { Status } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { Duration, RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { shortText } from '~/util/short-text'
import { CardLink } from './CardLink'

const SHOWN = 6

function RunList({ filters, empty, note, end }: { filters: RunFilters; empty: ReactNode; note: (run: Run) => ReactNode; end: (run: Run) => ReactNode }) {
  const { allowed, reason } = useScope('admin:read')
  const { data, error, refetch } = useQuery({ ...recentRunsQuery(filters, SHOWN), enabled: allowed })
  if (!allowed) return <EmptyState title="You cannot see runs.">{reason}</EmptyState>
  if (error) return <ErrorState error={error} what="The runs could not be loaded." onRetry={() => void refetch()} />
  if (!data) return <SkeletonRows rows={3} />
  if (data.items.length === 0) return empty
  return (
    <ul className="divide-y divide-line">
      {data.items.map((run) => (
        <li key={run.id} className="relative flex items-center gap-x-3 gap-y-1 px-4 py-2.5 max-sm:flex-wrap hover:bg-hover">
          <div className="min-w-0 flex-1 max-sm:basis-full">
            <Link to="/runs/$runId" params={{ runId: run.id }} className="block truncate font-medium after:absolute after:inset-0">
              {run.agentName}
            </Link>
            {run.inputPreview && <p title={run.inputPreview} className="truncate text-xs text-text-2">{shortText(run.inputPreview)}</p>}
            <p className="line-clamp-2 text-xs max-sm:line-clamp-4 break-words text-text-2">{note(run)}</p>
          </div>
          <Status status={run.status} detail={run.reason} />
          <span className="w-16 text-right max-sm:ml-auto text-xs whitespace-nowrap text-text-2">{end(run)}</span>
        </li>
      ))}
    </ul>
  )
}

export function RunningCard() {
  return (
    <Card title="Running now" flush action={<CardLink to="/runs" search={{ status: 'running' }}>All running</CardLink>}>
      <RunList
        filters={{ status: 'running' }}
        note={(run) => `${run.model} · step ${run.stepCount}${run.maxSteps ? ` of ${run.maxSteps}` : ''}`}
        end={(run) => <Duration since={run.startedAt ?? run.createdAt} />}
        empty={
          <EmptyState icon={<CirclePlay aria-hidden size={18} />} title="No agent is running.">
            Trigger an <Link to="/agents" className="text-accent-text underline">agent</Link>, dispatch a <Link to="/workflows" className="text-accent-text underline">workflow</Link> or write in the <Link to="/chat" className="text-accent-text underline">chat</Link>.
          </EmptyState>
        }
      />
    </Card>
  )
}

export function FailuresCard() {
  return (
    <Card title="Latest failures" flush action={<CardLink to="/runs" search={{ status: 'failed' }}>All failures</CardLink>}>
      <RunList
        filters={{ status: 'failed' }}
        note={(run) => <WithCode text={run.errorMessage ?? 'The run ended without a message.'} />}
        end={(run) => <RelativeTime at={run.completedAt ?? run.createdAt} />}
        empty={
          <EmptyState icon={<CircleCheck aria-hidden size={18} />} title="No run has failed.">
            A failed run is listed here with its reason.
          </EmptyState>
        }
      />
    </Card>
  )
}
