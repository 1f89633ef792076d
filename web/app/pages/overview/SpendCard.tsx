import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { budgetsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { buttonClass } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { Meter } from '~/ui/Charts'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { formatCompact, formatMoney } from '~/util/format'
import { CardLink } from './CardLink'

type DayBudget = Schemas['DayBudget']

const isLimited = ({ limit }: DayBudget) => (limit.usd ?? limit.tokens ?? null) !== null

/** What was spent today beside what may be spent, for the project and for agents with a limit. */
export function SpendCard() {
  const { allowed, reason } = useScope('agents:read')
  const { data, error, refetch } = useQuery({ ...budgetsQuery, enabled: allowed })
  const rows: [string, DayBudget][] = data ? [['Project', data.project], ...data.agents.map((one): [string, DayBudget] => [one.agent, one])] : []
  const limited = rows.filter(([, budget]) => isLimited(budget))
  return (
    <Card title="Spend today" action={limited.length > 0 && <CardLink to="/budgets">Budgets</CardLink>} flush={limited.length === 0}>
      {!allowed ? (
        <EmptyState title="You cannot see budgets.">{reason}</EmptyState>
      ) : error ? (
        <ErrorState error={error} what="The budgets could not be loaded." onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonRows rows={2} />
      ) : limited.length === 0 ? (
        <EmptyState
          title="There is no daily limit."
          action={
            <Link to="/budgets" className={buttonClass('secondary', 'sm')}>
              Set a budget
            </Link>
          }
        >
          With a limit, runs stop before they cost more, and this card shows how far it is used.
        </EmptyState>
      ) : (
        <ul className="space-y-3">
          {limited.map(([name, budget]) => (
            <Line key={name} name={name} budget={budget} />
          ))}
        </ul>
      )}
    </Card>
  )
}

function Line({ name, budget }: { name: string; budget: DayBudget }) {
  const { limit, today } = budget
  const inMoney = limit.usd !== null && limit.usd !== undefined
  const top = (inMoney ? limit.usd : limit.tokens) ?? 0
  const used = (inMoney ? today?.spent.usd : today?.spent.tokens) ?? 0
  const text = inMoney ? `${formatMoney(used)} of ${formatMoney(top)}` : `${formatCompact(used)} of ${formatCompact(top)} tokens`
  return (
    <li>
      <div className="mb-1 flex justify-between gap-3">
        <span className="truncate font-medium">{name}</span>
        <span className="whitespace-nowrap text-text-2">{text}</span>
      </div>
      <Meter value={used} limit={top} label={`${name}: ${text}`} />
    </li>
  )
}
