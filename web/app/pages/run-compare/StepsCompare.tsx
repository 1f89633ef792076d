import { useMemo } from 'react'
import { Badge } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { Diff } from '~/ui/Diff'
import { EmptyState } from '~/ui/EmptyState'
import { SkeletonRows } from '~/ui/Skeleton'
import { Money } from '~/ui/Values'
import { formatCount, formatDuration } from '~/util/format'
import type { CallItem, RunRecord } from '../run/run-record'
import { callsDiffer, endOf, inputOf, type Pair, pairCalls, pairSteps, stable, type Step, stepsDiffer, stepsOf } from './compare'

/** The steps of both runs in pairs, with what differs in their answers, inputs and outputs. */
export function StepsCompare({ left, right, version, isComplete, all }: { left: RunRecord; right: RunRecord; version: number; isComplete: boolean; all: boolean }) {
  // The records are changed in place; the version says when.
  // oxlint-disable-next-line react/exhaustive-deps
  const pairs = useMemo(() => pairSteps(stepsOf(left), stepsOf(right)), [left, right, version])
  const [a, b] = [inputOf(left), inputOf(right)]
  const shown = pairs.map((pair, index) => ({ pair, index })).filter(({ pair }) => all || stepsDiffer(pair))
  if (!isComplete) return <SkeletonRows rows={6} />
  return (
    <Card title="Steps" flush action={<span className="text-xs text-text-2">{pairs.filter(stepsDiffer).length} of {pairs.length} differ</span>}>
      {(all || a !== b) && (
        <div className="border-b border-line px-4 py-3">
          <h3 className="mb-2 font-medium">Input</h3>
          {a === b ? <p className="text-text-2">{a}</p> : <Diff before={a} after={b} label="Differences of the input" />}
        </div>
      )}
      {shown.length === 0 && <EmptyState title="Every step is the same.">Ids, times and versions are not compared.</EmptyState>}
      <ol className="divide-y divide-line">
        {shown.map(({ pair, index }) => (
          <StepPair key={index} pair={pair} number={index + 1} all={all} />
        ))}
      </ol>
    </Card>
  )
}

function StepPair({ pair, number, all }: { pair: Pair<Step>; number: number; all: boolean }) {
  const { left, right } = pair
  const calls = pairCalls(left?.calls ?? [], right?.calls ?? []).filter((one) => all || callsDiffer(one))
  return (
    <li className="space-y-3 px-4 py-3">
      <div className="flex flex-wrap items-center gap-2">
        <h3 className="font-medium">Step {number}</h3>
        {!left || !right ? <Badge tone="warn">Only {left ? 'left' : 'right'}</Badge> : stepsDiffer(pair) ? <Badge tone="run">Differs</Badge> : <Badge>Same</Badge>}
      </div>
      <div className="grid gap-3 md:grid-cols-2">
        <Side name="Left" step={left} other={right} />
        <Side name="Right" step={right} other={left} />
      </div>
      {calls.length > 0 && (
        <ul className="space-y-2">
          {calls.map((one, index) => (
            <CallPair key={index} pair={one} place={`step ${number}, call ${index + 1}`} />
          ))}
        </ul>
      )}
    </li>
  )
}

function Side({ name, step, other }: { name: string; step: Step | undefined; other: Step | undefined }) {
  if (!step) return <p className="rounded-md border border-dashed border-line p-3 text-text-2">{name}: this run has no such step.</p>
  return (
    <div className="min-w-0 rounded-md border border-line p-3">
      <p className="mb-1 text-xs text-text-2">
        {name} · {formatCount(step.input + step.output)} tokens · <Money usd={step.cost} /> · {formatDuration(step.milliseconds)}
      </p>
      <p className={other && other.text === step.text ? 'break-words whitespace-pre-wrap text-text-2' : 'break-words whitespace-pre-wrap'}>{step.text || 'No text, only calls.'}</p>
    </div>
  )
}

const asStable = (value: unknown) => (value === undefined ? '' : stable(value))

/** `place` tells apart the differences of a tool that is called more than once. */
function CallPair({ pair, place }: { pair: Pair<CallItem>; place: string }) {
  const { left, right } = pair
  const call = left ?? right
  if (!call) return null
  const one = !left || !right
  const ends = left && right && endOf(left) !== endOf(right) ? `${endOf(left)} on the left, ${endOf(right)} on the right` : undefined
  const inputs = JSON.stringify(stable(left?.input)) !== JSON.stringify(stable(right?.input))
  const outputs = JSON.stringify(stable(left?.output)) !== JSON.stringify(stable(right?.output))
  return (
    <li className="min-w-0 rounded-md border border-line bg-sunken p-3">
      <p className="flex flex-wrap items-center gap-2">
        <code className="font-mono text-xs font-medium">{call.toolName}</code>
        {one ? <Badge tone="warn">Only {left ? 'left' : 'right'}</Badge> : inputs || outputs || ends ? <Badge tone="run">Differs</Badge> : <Badge>Same</Badge>}
        {ends && <span className="text-xs text-text-2">{ends}</span>}
      </p>
      {(inputs || outputs) && (
        <div className="mt-2 grid gap-3 md:grid-cols-2">
          {inputs && (
            <div className="min-w-0">
              <h4 className="mb-1 text-xs text-text-2">Input</h4>
              <Diff before={asStable(left?.input)} after={asStable(right?.input)} label={`Differences of the input of ${call.toolName}, ${place}`} />
            </div>
          )}
          {outputs && (
            <div className="min-w-0">
              <h4 className="mb-1 text-xs text-text-2">Output</h4>
              <Diff before={asStable(left?.output)} after={asStable(right?.output)} label={`Differences of the output of ${call.toolName}, ${place}`} />
            </div>
          )}
        </div>
      )}
    </li>
  )
}
