import { useQuery } from '@tanstack/react-query'
import { useClock } from '~/hooks/use-now'
import { Card } from '~/ui/Card'
import { Meter } from '~/ui/Charts'
import { formatCompact, formatDuration, formatMoney } from '~/util/format'
import { isOver, type RunDetail, type RunTree, spendBelowQuery, useOwnSteps } from './run-queries'
import type { RunRecord } from './run-record'

const CHAIN_STEPS = 500

/**
 * How much of what the run may use is used. Tokens and cost count the runs below it. Steps count from where it was
 * resumed, and its time stands still while it waits for a person.
 */
export function LimitsCard({ run, tree, record }: { run: RunDetail; tree: RunTree | undefined; record: RunRecord }) {
  const now = useClock((at) => (isOver(run.status) ? 0 : at), run.status === 'running')
  const hasSpendLimit = (run.maxTotalTokens ?? run.maxCostUsd ?? null) !== null
  const below = useQuery({ ...spendBelowQuery(run, tree ?? { id: run.id, agentName: '', children: [], status: run.status, stepCount: 0 }), enabled: hasSpendLimit && tree !== undefined && run.childRuns.length > 0 }).data
  const own = run.tokenUsage
  const steps = useOwnSteps(run, run.resumedFrom)
  const waits = run.status === 'waiting'
  const started = run.startedAt ? Date.parse(run.startedAt) : undefined
  const until = isOver(run.status) ? (started ?? 0) + (run.durationMs ?? 0) : waits && run.waitingSince ? Math.min(now, Date.parse(run.waitingSince)) : now
  const took = started === undefined ? 0 : record.timeUsed(started, until)
  const limits: [name: string, used: number, top: number, text: (value: number) => string][] = [
    ['Time', took, run.timeoutSeconds * 1000, formatDuration],
  ]
  // Only a run without a limit of its own ends with that of its whole chain.
  if (!run.maxSteps) limits.unshift([run.resumedFrom ? 'Steps with the runs before' : 'Steps', run.stepCount, CHAIN_STEPS, String])
  else if (steps !== undefined) limits.unshift(['Steps', steps, run.maxSteps, String])
  const withBelow = run.childRuns.length > 0 ? ' with the runs below' : ''
  if (run.maxTotalTokens) limits.push([`Tokens${withBelow}`, own.totalInput + own.totalOutput + (below?.tokens ?? 0), run.maxTotalTokens, formatCompact])
  if (run.maxCostUsd) limits.push([`Cost${withBelow}`, (own.totalCost ?? 0) + (below?.usd ?? 0), run.maxCostUsd, formatMoney])
  return (
    <Card title="Limits">
      <ul className="space-y-3">
        {limits.map(([name, used, top, text]) => (
          <li key={name}>
            <div className="mb-1 flex justify-between gap-3">
              <span className="text-text-2">{name}</span>
              <span>
                {text(used)} <span className="text-text-2">of {text(top)}</span>
              </span>
            </div>
            <Meter value={used} limit={top} label={`${name}: ${text(used)} of ${text(top)}`} />
            {name === 'Time' && waits && <p className="mt-1 text-xs text-text-2">The clock stands still while it waits.</p>}
          </li>
        ))}
      </ul>
    </Card>
  )
}
