import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { budgetsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { Card } from '~/ui/Card'
import { Meter } from '~/ui/Charts'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { formatCompact, formatMoney, formatSpent } from '~/util/format'
import { CardLink } from './CardLink'

type DayBudget = Schemas['DayBudget']

const isLimited = ({ limit }: DayBudget) => (limit.usd ?? limit.tokens ?? null) !== null

/** What was spent today beside what may be spent, for the project and for agents with a limit. */
export function SpendCard() {
  const { allowed, reason } = useScope('agents:read')
  const { data, error, refetch } = useQuery({ ...budgetsQuery, enabled: allowed })
  return (
    <Card title="Spend today" action={<CardLink to="/budgets">Budgets</CardLink>}>
      {!allowed ? (
        <EmptyState title="You cannot see budgets.">{reason}</EmptyState>
      ) : error ? (
        <ErrorState error={error} what="The budgets could not be loaded." onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonRows rows={2} />
      ) : (
        <ul className="space-y-3">
          {isLimited(data.project) ? <Line name="Project" budget={data.project} /> : <Unlimited />}
          {data.agents.filter(isLimited).map((budget) => (
            <Line key={budget.agent} name={budget.agent} budget={budget} />
          ))}
        </ul>
      )}
    </Card>
  )
}

/** Without a limit the server counts nothing, so this is what the runs cost that were started today (UTC): the newest 100. */
function Unlimited() {
  const { allowed } = useScope('admin:read')
  const since = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`
  // So many runs are read once a minute, and not after every event of a run.
  const { data: runs, error } = useQuery({
    queryKey: [...keys.runs, 'today', since],
    enabled: allowed,
    staleTime: 60_000,
    refetchInterval: 60_000,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { since, limit: 100 } }, signal })),
  })
  const usd = runs?.items.reduce((sum, run) => sum + (run.tokenUsage.totalCost ?? 0), 0)
  return <Amounts name="Project" text={error ? 'Spend not known, no limit set' : usd === undefined ? 'No limit set' : `${runs?.cursor ? 'At least ' : ''}${formatSpent(usd, 0, null, formatMoney)}`} />
}

/** The meter shows what was charged. What is reserved for calls under way is named apart, because most of it is not charged in the end. */
function Line({ name, budget: { limit, today } }: { name: string; budget: DayBudget }) {
  const unit = limit.usd == null ? 'tokens' : 'usd'
  const [top, used] = [limit[unit] ?? 0, today?.spent[unit] ?? 0]
  const text = formatSpent(used, today?.reserved[unit] ?? 0, top, unit === 'usd' ? formatMoney : formatCompact) + (unit === 'usd' ? '' : ' tokens')
  return (
    <Amounts name={name} text={text}>
      <Meter value={used} limit={top} label={`${name}: ${text}`} />
    </Amounts>
  )
}

const Amounts = ({ name, text, children }: { name: string; text: string; children?: ReactNode }) => (
  <li>
    <div className="mb-1 flex flex-wrap justify-between gap-x-3">
      <span className="truncate font-medium">{name}</span>
      <span className="text-text-2">{text}</span>
    </div>
    {children}
  </li>
)
