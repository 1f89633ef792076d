// Where the bars of a timeline are. Positions are thousandths of the whole time.
import { hasFailed, type RunRecord } from './run-record'

export const SCALE = 1000
export const MAX_TOOL_LANES = 5
/** Beyond this many calls, calls that are closer than a pixel become one bar. */
const MANY = 400
const CLOSE = 1
/** A call that took no time, such as one that a rule denied, has to be seen and hit as well. */
const SMALLEST = 6

export type Bar = {
  id: string
  lane: number
  from: number
  to: number
  kind: 'model' | 'tool'
  tone: 'model' | 'tool' | 'fail' | 'denied' | 'unmade' | 'open'
  label: string
  step: number
  milliseconds: number
  /** How many calls the bar stands for. */
  count: number
}
export type Layout = { bars: Bar[]; waits: { from: number; to: number }[]; lanes: number; start: number; length: number; ticks: number[] }

export function layOut(record: RunRecord, start: number, end: number): Layout {
  const length = Math.max(1, end - start)
  const place = (time: number) => (Math.max(0, Math.min(length, time - start)) / length) * SCALE
  const model: Bar[] = record.modelCalls.map((span) => ({ id: span.id, lane: 0, from: place(span.from), to: place(span.to), kind: 'model', tone: 'model', label: 'Model', step: span.step, milliseconds: span.to - span.from, count: 1 }))
  if (record.modelSince !== undefined) model.push({ id: 'live', lane: 0, from: place(record.modelSince), to: place(end), kind: 'model', tone: 'open', label: 'Model, still at work', step: record.live?.step ?? 0, milliseconds: end - record.modelSince, count: 1 })
  const tools: Bar[] = []
  const lanesUntil: number[] = []
  for (const item of record.items) {
    if (item.kind !== 'call') continue
    const to = item.endedAt ?? (record.ended ? item.at : end)
    const free = lanesUntil.findIndex((until) => until <= item.at)
    const lane = free >= 0 ? free : Math.min(lanesUntil.length, MAX_TOOL_LANES - 1)
    lanesUntil[lane] = Math.max(lanesUntil[lane] ?? 0, to)
    tools.push({
      id: item.id,
      lane: lane + 1,
      from: place(item.at),
      to: place(to),
      kind: 'tool',
      tone: hasFailed(item) ? 'fail' : item.denied ? 'denied' : item.unfinished === 'not_made' ? 'unmade' : item.endedAt === undefined && !record.ended ? 'open' : 'tool',
      label: item.toolName,
      step: item.step,
      milliseconds: item.durationMs ?? to - item.at,
      count: 1,
    })
  }
  const isMany = tools.length + model.length > MANY
  return {
    bars: (isMany ? [...merge(model), ...merge(tools)] : [...model, ...tools]).map(widened),
    waits: record.waits.map((wait) => ({ from: place(wait.from), to: place(Math.min(wait.to, end)) })),
    lanes: 1 + Math.max(1, lanesUntil.length),
    start,
    length,
    ticks: ticksOf(length),
  }
}

/** The bar with its smallest width, within the whole time. */
function widened(bar: Bar): Bar {
  const from = Math.min(bar.from, SCALE - SMALLEST)
  return { ...bar, from, to: Math.max(bar.to, from + SMALLEST) }
}

/** Joins bars of a lane that nobody could tell apart. */
function merge(bars: Bar[]): Bar[] {
  const last = new Map<number, Bar>()
  const merged: Bar[] = []
  for (const bar of bars) {
    const before = last.get(bar.lane)
    // What is at work has a bar of its own, which looks like it.
    if (before && bar.from - before.to < CLOSE && before.tone !== 'open' && bar.tone !== 'open') {
      before.to = Math.max(before.to, bar.to)
      before.milliseconds += bar.milliseconds
      before.count += 1
      if (bar.tone === 'fail' || before.tone === 'denied' || before.tone === 'unmade') before.tone = bar.tone
      continue
    }
    const copy = { ...bar }
    last.set(bar.lane, copy)
    merged.push(copy)
  }
  return merged
}

const STEPS = [1, 2, 5]

/** Four to eight round times within `length` milliseconds. */
export function ticksOf(length: number): number[] {
  for (let power = 1; ; power *= 10) {
    for (const step of STEPS) {
      const size = step * power
      if (length / size <= 7) return Array.from({ length: Math.floor(length / size) + 1 }, (_, index) => index * size)
    }
  }
}
