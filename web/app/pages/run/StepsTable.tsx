import { useMemo } from 'react'
import { EmptyState } from '~/ui/EmptyState'
import { Money } from '~/ui/Values'
import { formatCount, formatDuration } from '~/util/format'
import type { RunDetail } from './run-queries'
import { hasFailed, type RunRecord } from './run-record'

type Step = { step: number; id: string | undefined; input: number; output: number; cached: number; cost: number | undefined; modelMs: number; toolMs: number; calls: number; denied: number; failed: number }

/** The sums of each step, in the order of the steps. */
export function stepsOf(record: RunRecord): Step[] {
  const steps = new Map<number, Step>()
  const of = (step: number): Step => {
    let found = steps.get(step)
    if (!found) steps.set(step, (found = { step, id: undefined, input: 0, output: 0, cached: 0, cost: undefined, modelMs: 0, toolMs: 0, calls: 0, denied: 0, failed: 0 }))
    return found
  }
  for (const item of record.items) {
    if (item.kind === 'message' && item.role === 'assistant') {
      const step = of(item.step)
      step.id ??= item.id
      step.input += item.tokens?.input ?? 0
      step.output += item.tokens?.output ?? 0
      step.cached += item.tokens?.cacheRead ?? 0
      if (item.cost !== null && item.cost !== undefined) step.cost = (step.cost ?? 0) + item.cost
    } else if (item.kind === 'call') {
      const step = of(item.step)
      step.calls++
      step.toolMs += item.durationMs ?? 0
      if (item.denied) step.denied++
      if (hasFailed(item)) step.failed++
    }
  }
  for (const span of record.modelCalls) of(span.step).modelMs += span.to - span.from
  return [...steps.values()].sort((a, b) => a.step - b.step)
}

const CELL = 'px-3 py-2 text-right whitespace-nowrap'

export function StepsTable({ run, record, version, onSelect }: { run: RunDetail; record: RunRecord; version: number; onSelect: (id: string) => void }) {
  // The record is changed in place; its version says when.
  // oxlint-disable-next-line react/exhaustive-deps
  const steps = useMemo(() => stepsOf(record), [record, version])
  if (steps.length === 0) return <EmptyState title="There is no step yet.">A step is an answer of the model and the tool calls that follow from it.</EmptyState>
  const most = Math.max(1, ...steps.map((step) => step.input + step.output))
  return (
    // The region scrolls, so it can have the focus.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div role="region" aria-label="Tokens and cost by step" tabIndex={0} className="overflow-x-auto rounded-lg border border-line bg-surface shadow-card">
      <table className="w-full">
        <thead className="border-b border-line text-xs text-text-2">
          <tr>
            {['Step', 'Input', 'Cached', 'Output', 'Cost', 'Model', 'Calls', 'Tools'].map((name, index) => (
              <th key={name} scope="col" className={index === 0 ? 'px-4 py-2 text-left font-medium' : `${CELL} font-medium`}>
                {name}
              </th>
            ))}
            <th scope="col" className="hidden w-1/5 px-4 py-2 text-left font-medium md:table-cell">
              Share
            </th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {steps.map((step) => (
            <tr key={step.step} className="hover:bg-hover">
              <th scope="row" className="px-4 py-2 text-left font-medium">
                {step.id ? (
                  <button type="button" onClick={() => onSelect(step.id!)} className="rounded-sm text-accent-text hover:underline">
                    {step.step}
                  </button>
                ) : (
                  step.step
                )}
              </th>
              <td className={CELL}>{formatCount(step.input)}</td>
              <td className={CELL}>{formatCount(step.cached)}</td>
              <td className={CELL}>{formatCount(step.output)}</td>
              <td className={CELL}>
                <Money usd={step.cost} />
              </td>
              <td className={CELL}>{formatDuration(step.modelMs)}</td>
              <td className={CELL}>
                {step.calls}
                {step.denied > 0 && <span className="text-text-2"> ({step.denied} denied)</span>}
                {step.failed > 0 && <span className="text-fail"> ({step.failed} failed)</span>}
              </td>
              <td className={CELL}>{formatDuration(step.toolMs)}</td>
              <td aria-label={`${formatCount(step.input + step.output)} tokens`} className="hidden px-4 md:table-cell">
                <svg aria-hidden viewBox="0 0 100 8" preserveAspectRatio="none" className="block h-2 w-full">
                  <rect width={(step.input / most) * 100} height="8" className="fill-run-fill" />
                  <rect x={(step.input / most) * 100} width={(step.output / most) * 100} height="8" className="fill-accent" />
                </svg>
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot className="border-t border-line font-medium">
          <tr>
            <th scope="row" className="px-4 py-2 text-left font-medium">All</th>
            <td className={CELL}>{formatCount(run.tokenUsage.totalInput)}</td>
            <td className={CELL}>{formatCount(run.tokenUsage.cacheRead)}</td>
            <td className={CELL}>{formatCount(run.tokenUsage.totalOutput)}</td>
            <td className={CELL}>
              <Money usd={run.tokenUsage.totalCost} />
            </td>
            <td className={CELL}>{formatDuration(steps.reduce((sum, step) => sum + step.modelMs, 0))}</td>
            <td className={CELL}>{formatCount(run.toolCallSummary.total)}</td>
            <td className={CELL}>{formatDuration(steps.reduce((sum, step) => sum + step.toolMs, 0))}</td>
            <td className="hidden px-4 text-xs font-normal text-text-2 md:table-cell">input, then output</td>
          </tr>
        </tfoot>
      </table>
    </div>
  )
}
