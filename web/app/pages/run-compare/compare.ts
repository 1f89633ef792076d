// Puts the steps of two runs side by side.
import { hasParts } from '~/util/json'
import type { CallItem, RunRecord } from '../run/run-record'

export type Step = { step: number; text: string; thoughts: string; calls: CallItem[]; input: number; output: number; cost: number | undefined; milliseconds: number }
export type Pair<T> = { left: T | undefined; right: T | undefined }

/** What was said before and after, as two paragraphs. */
const joined = (before: string, after: string | undefined) => [before, after].filter(Boolean).join('\n\n')

/** The steps of a record in their order, each with its answer and its calls. */
export function stepsOf(record: RunRecord): Step[] {
  const steps = new Map<number, Step>()
  const of = (step: number): Step => {
    let found = steps.get(step)
    if (!found) steps.set(step, (found = { step, text: '', thoughts: '', calls: [], input: 0, output: 0, cost: undefined, milliseconds: 0 }))
    return found
  }
  for (const item of record.items) {
    if (item.kind === 'call') of(item.step).calls.push(item)
    else if (item.kind === 'message' && item.role === 'assistant') {
      const step = of(item.step)
      step.text = joined(step.text, item.text)
      step.thoughts = joined(step.thoughts, item.thoughts)
      step.input += item.tokens?.input ?? 0
      step.output += item.tokens?.output ?? 0
      if (item.cost !== null && item.cost !== undefined) step.cost = (step.cost ?? 0) + item.cost
    }
  }
  for (const span of record.modelCalls) of(span.step).milliseconds += span.to - span.from
  return [...steps.values()].sort((a, b) => a.step - b.step)
}

/** What the run was asked: its first message that no server wrote. */
export const inputOf = (record: RunRecord): string => {
  const first = record.items.find((item) => item.kind === 'message' && item.role === 'user')
  return first?.kind === 'message' ? first.text : ''
}

/** Steps are paired by their place: the first with the first. */
export function pairSteps(left: Step[], right: Step[]): Pair<Step>[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => ({ left: left[index], right: right[index] }))
}

/** Calls of two steps are paired by tool and order; a call without a counterpart stands alone. */
export function pairCalls(left: CallItem[], right: CallItem[]): Pair<CallItem>[] {
  const pairs: Pair<CallItem>[] = []
  const rest = [...right]
  for (const call of left) {
    const index = rest.findIndex((one) => one.toolName === call.toolName)
    pairs.push({ left: call, right: index < 0 ? undefined : rest.splice(index, 1)[0] })
  }
  return [...pairs, ...rest.map((call) => ({ left: undefined, right: call }))]
}

const VOLATILE = new Set(['id', 'createdAt', 'updatedAt', 'version', 'run_id', 'runId', 'toolCallId', 'score'])

/** A value without ids, times and versions, which differ between any two runs. */
export function stable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(stable)
  if (!hasParts(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, child]) => !VOLATILE.has(name) || (name === 'id' && typeof child === 'string' && child.includes('/')))
      .map(([name, child]) => [name, stable(child)]),
  )
}

const same = (a: unknown, b: unknown) => JSON.stringify(stable(a)) === JSON.stringify(stable(b))

/** How a call ended, in words. One that was denied did not fail, although its status is the same. */
export const endOf = ({ denied, status }: CallItem) => (denied ? 'denied' : status === 'error' ? 'failed' : status)

export const callsDiffer = ({ left, right }: Pair<CallItem>) => !left || !right || endOf(left) !== endOf(right) || !same(left.input, right.input) || !same(left.output, right.output)

export function stepsDiffer({ left, right }: Pair<Step>): boolean {
  if (!left || !right || left.text !== right.text) return true
  return pairCalls(left.calls, right.calls).some(callsDiffer)
}
