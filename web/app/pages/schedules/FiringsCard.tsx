import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleCheck, CircleDashed, CircleX, History, SkipForward } from 'lucide-react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Agent, Schemas } from '~/api/types'
import { FilterBar, FilterSelect } from '~/table/FilterBar'
import { useRows } from '~/table/use-infinite'
import { Badge, type Tone } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { ListTable } from '~/ui/ListTable'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { capitalised } from '~/util/format'
import { EVENTS, type Trigger } from './triggers'

type Firing = Schemas['Firing']
type Status = Schemas['FiringStatus']

const STATUSES: Record<Status, [Tone, typeof CircleX, string]> = {
  pending: ['idle', CircleDashed, 'Pending'],
  admitted: ['ok', CircleCheck, 'Started'],
  refused: ['fail', CircleX, 'Refused'],
  skipped: ['idle', SkipForward, 'Skipped'],
}
const RULES: Record<string, string> = {
  still_running: 'The last run had not ended.',
  missed: 'The time passed while no server ran.',
  depth: 'Too many agents had set one another off.',
  gone: 'What it was about is gone.',
  trigger_changed: 'The trigger was changed meanwhile.',
}

type Props = { status: Status | undefined; agent: string | undefined; agents: Agent[]; schedules: Trigger[]; onChange: (change: { firings?: string | undefined; agent?: string | undefined }) => void }

/** What fired, and what became of it, the newest first. */
export function FiringsCard({ status, agent, agents, schedules, onChange }: Props) {
  const { allowed, reason } = useScope('admin:read')
  const agentId = agents.find((one) => one.name === agent)?.id
  const query = useInfiniteQuery({
    queryKey: [...keys.firings, status ?? null, agentId ?? null],
    enabled: allowed && (agent === undefined || agentId !== undefined),
    refetchInterval: 30_000,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/admin/triggers/firings', { params: { query: { status, agentId, limit: 20, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  const isFiltered = status !== undefined || agent !== undefined
  const nameOf = (firing: Firing) => firing.triggerName ?? schedules.find((one) => one.schedule?.id === firing.scheduleId)?.title ?? firing.agentName
  return (
    <Card title="Recent firings" flush>
      <FilterBar isFiltered={isFiltered} onClear={() => onChange({ firings: '', agent: '' })}>
        <FilterSelect label="Outcome" value={status} options={Object.entries(STATUSES).map(([value, [, , label]]) => ({ value, label }))} onChange={(firings) => onChange({ firings })} />
        <FilterSelect label="Agent" value={agent} options={agents.map(({ name }) => ({ value: name, label: name }))} onChange={(next) => onChange({ agent: next })} />
      </FilterBar>
      {!allowed ? (
        <EmptyState title="You cannot see firings.">{reason}</EmptyState>
      ) : query.error ? (
        <ErrorState error={query.error} what="The firings could not be loaded." onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <SkeletonRows rows={4} />
      ) : rows.length === 0 ? (
        <EmptyState icon={<History aria-hidden size={18} />} title={isFiltered ? 'No firing matches these filters.' : 'No trigger has fired yet.'}>
          {!isFiltered && 'Each time a trigger fires, it is listed here with the run or workflow that it started, or why it started none.'}
        </EmptyState>
      ) : (
        <>
          <ListTable
            label="Firings"
            rows={rows}
            rowKey={(one) => one.id}
            columns={[
              { key: 'what', head: 'Trigger', className: 'min-w-32', cell: (one) => <><span className="font-medium wrap-anywhere">{nameOf(one)}</span><p className="text-xs text-text-2">{one.event ? EVENTS[one.event] : 'Schedule'}{one.entityType && `: ${one.entityType}`}</p></> },
              { key: 'at', head: 'When', from: 'sm', below: true, className: 'whitespace-nowrap', cell: (one) => <RelativeTime at={one.scheduledAt ?? one.createdAt} className="text-text-2" /> },
              { key: 'outcome', head: 'Outcome', from: 'sm', below: true, cell: (one) => <Outcome firing={one} /> },
              { key: 'link', head: 'Started', align: 'end', from: 'sm', cell: (one) => <Started firing={one} /> },
            ]}
          />
          {hasMore && <p className="border-t border-line p-2 text-center"><Button size="sm" busy={isLoadingMore} onClick={onMore}>Show older firings</Button></p>}
        </>
      )}
    </Card>
  )
}

function Outcome({ firing }: { firing: Firing }) {
  const [tone, Icon, label] = STATUSES[firing.status]
  return (
    <>
      <Badge tone={tone} icon={<Icon aria-hidden size={12} />}>{label}</Badge>
      {firing.reason && <p className="mt-1 text-xs wrap-anywhere text-text-2"><WithCode text={RULES[firing.reason] ?? capitalised(firing.reason)} /></p>}
      {(firing.runId || firing.workflowId) && <p className="mt-1 text-xs sm:hidden"><Started firing={firing} /></p>}
    </>
  )
}

function Started({ firing }: { firing: Firing }) {
  if (firing.runId) return <Link to="/runs/$runId" params={{ runId: firing.runId }} className="text-accent-text underline">Run of {firing.agentName}</Link>
  if (firing.workflowId) return <Link to="/workflows/$workflowId" params={{ workflowId: firing.workflowId }} className="text-accent-text underline">Workflow</Link>
  return <span className="text-text-2">{firing.status === 'pending' ? 'Not yet' : 'Nothing'}</span>
}
