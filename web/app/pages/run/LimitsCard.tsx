import { useQuery } from '@tanstack/react-query'
import { useNow } from '~/hooks/use-now'
import { Card } from '~/ui/Card'
import { Meter } from '~/ui/Charts'
import { formatCompact, formatDuration, formatMoney } from '~/util/format'
import { isOver, type RunDetail, type RunTree, spendBelowQuery } from './run-queries'

const CHAIN_STEPS = 500

/** How much of what the run may use is used. Tokens and cost count the runs below it. */
export function LimitsCard({ run, tree }: { run: RunDetail; tree: RunTree | undefined }) {
  const now = useNow()
  const hasSpendLimit = (run.maxTotalTokens ?? run.maxCostUsd ?? null) !== null
  const below = useQuery({ ...spendBelowQuery(run, tree ?? { id: run.id, agentName: '', children: [], status: run.status, stepCount: 0 }), enabled: hasSpendLimit && tree !== undefined && run.childRuns.length > 0 }).data
  const own = run.tokenUsage
  const took = run.durationMs ?? (isOver(run.status) || !run.startedAt ? 0 : Math.max(0, now - Date.parse(run.startedAt)))
  const limits: [name: string, used: number, top: number, text: (value: number) => string][] = [
    ['Steps', run.stepCount, run.maxSteps ?? CHAIN_STEPS, String],
    ['Time', took, run.timeoutSeconds * 1000, formatDuration],
  ]
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
          </li>
        ))}
      </ul>
    </Card>
  )
}
