import type { ReactNode } from 'react'
import { Status } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { Duration, Money, RelativeTime } from '~/ui/Values'
import { classes } from '~/util/classes'
import { capitalised, formatCount, formatDuration, formatMoney, words } from '~/util/format'
import { isOver, type RunDetail } from '../run/run-queries'

type Fact = { name: string; show: (run: RunDetail) => ReactNode; value: (run: RunDetail) => unknown; number?: (run: RunDetail) => number | null | undefined; format?: (value: number) => string; isContext?: boolean }

const FACTS: Fact[] = [
  { name: 'Agent', show: (run) => run.agentName, value: (run) => run.agentName },
  { name: 'Status', show: (run) => <Status status={run.status} detail={run.reason} />, value: (run) => `${run.status} ${run.reason ?? ''}` },
  { name: 'Model', show: (run) => run.model, value: (run) => run.model },
  { name: 'Origin', show: (run) => capitalised(words(run.origin)), value: (run) => run.origin },
  { name: 'Created', show: (run) => <RelativeTime at={run.createdAt} />, value: () => '', isContext: true },
  { name: 'Duration', show: (run) => <Duration milliseconds={run.durationMs} since={isOver(run.status) ? undefined : run.startedAt} />, value: (run) => run.durationMs, number: (run) => run.durationMs, format: formatDuration },
  { name: 'Steps', show: (run) => run.stepCount, value: (run) => run.stepCount, number: (run) => run.stepCount, format: formatCount },
  { name: 'Tool calls', show: (run) => run.toolCallSummary.total, value: (run) => run.toolCallSummary.total, number: (run) => run.toolCallSummary.total, format: formatCount },
  { name: 'Failed or denied calls', show: (run) => run.toolCallSummary.errors, value: (run) => run.toolCallSummary.errors, number: (run) => run.toolCallSummary.errors, format: formatCount },
  { name: 'Input tokens', show: (run) => formatCount(run.tokenUsage.totalInput), value: (run) => run.tokenUsage.totalInput, number: (run) => run.tokenUsage.totalInput, format: formatCount },
  { name: 'Output tokens', show: (run) => formatCount(run.tokenUsage.totalOutput), value: (run) => run.tokenUsage.totalOutput, number: (run) => run.tokenUsage.totalOutput, format: formatCount },
  { name: 'Cost', show: (run) => <Money usd={run.tokenUsage.totalCost} />, value: (run) => run.tokenUsage.totalCost, number: (run) => run.tokenUsage.totalCost, format: formatMoney },
]

/** The facts of both runs, and how far the right one is from the left one. */
export function FactsTable({ left, right, all }: { left: RunDetail; right: RunDetail; all: boolean }) {
  const differs = (fact: Fact) => fact.value(left) !== fact.value(right)
  const shown = FACTS.filter((fact) => all || fact.isContext || fact.number || differs(fact))
  return (
    <Card title="Facts" flush>
      <table className="w-full table-fixed">
        <thead className="sr-only">
          <tr>
            <th scope="col">Fact</th>
            <th scope="col">Left run</th>
            <th scope="col">Right run</th>
            <th scope="col">Difference</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {shown.map((fact) => (
            <tr key={fact.name}>
              <th scope="row" className="w-1/4 px-4 py-1.5 text-left font-normal text-text-2">
                {fact.name}
              </th>
              <td className="px-2 py-1.5 break-words">{fact.show(left)}</td>
              <td className={classes('px-2 py-1.5 break-words', differs(fact) && 'font-medium')}>{fact.show(right)}</td>
              <td className="w-1/5 px-4 py-1.5 text-right text-text-2">{difference(fact, left, right)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  )
}

function difference(fact: Fact, left: RunDetail, right: RunDetail): string {
  const [a, b] = [fact.number?.(left), fact.number?.(right)]
  if (a === null || a === undefined || b === null || b === undefined || !fact.format) return fact.value(left) === fact.value(right) ? '' : 'differs'
  if (a === b) return 'same'
  return `${b > a ? '+' : '−'}${fact.format(Math.abs(b - a))}`
}
