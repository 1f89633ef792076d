import { expect, it } from 'vitest'
import { type CallItem, type RecordItem, RunRecord, type Span } from './run-record'
import { type Bar, layOut, MAX_TOOL_LANES, SCALE, ticksOf } from './timeline-layout'

const call = (id: string, at: number, endedAt: number | undefined, more: Partial<CallItem> = {}): CallItem => ({ kind: 'call', id, toolName: id, step: 1, status: endedAt === undefined ? 'running' : 'completed', denied: false, durationMs: endedAt === undefined ? null : endedAt - at, preview: '', at, endedAt, ...more })
const span = (id: string, from: number, to: number): Span => ({ id, step: 1, from, to })
function record({ calls = [], model = [], waits = [], ended = true }: { calls?: RecordItem[]; model?: Span[]; waits?: Span[]; ended?: boolean }) {
  const made = new RunRecord()
  made.items.push(...calls)
  made.modelCalls.push(...model)
  made.waits.push(...waits)
  made.ended = ended
  return made
}
/** Bars as `name lane from-to`, in thousandths of the whole time. */
const drawn = (bars: Bar[]) => bars.map(({ label, lane, from, to }) => `${label} ${lane} ${Math.round(from)}-${Math.round(to)}`)

it('gives each call a bar that is as wide as its part of the time', () => {
  const { bars, length } = layOut(record({ model: [span('m1', 5000, 7000)], calls: [call('read', 7000, 8000), call('search', 8000, 12_000)] }), 5000, 15_000)
  expect(length).toBe(10_000)
  expect(drawn(bars)).toEqual(['Model 0 0-200', 'read 1 200-300', 'search 1 300-700'])
  const width = ({ from, to }: Bar) => to - from
  for (const bar of bars) expect(width(bar) / SCALE).toBeCloseTo(bar.milliseconds / length)
  // Twice the time shows everything half as wide.
  expect(drawn(layOut(record({ calls: [call('search', 8000, 12_000)] }), 5000, 25_000).bars)).toEqual(['search 1 150-350'])
})

it('shows a call of no time as wide as one can see and hit, within the whole time', () => {
  const { bars } = layOut(record({ calls: [call('first', 0, 0), call('last', 1000, 1000)] }), 0, 1000)
  for (const { from, to } of bars) {
    expect(to - from).toBeGreaterThanOrEqual(6)
    expect([from >= 0, to <= SCALE]).toEqual([true, true])
  }
})

it('puts calls at the same time into lanes of their own, and uses a lane again when it is free', () => {
  const { bars, lanes } = layOut(record({ calls: [call('a', 0, 400), call('b', 100, 300), call('c', 350, 500), call('d', 400, 600)] }), 0, 1000)
  expect(drawn(bars)).toEqual(['a 1 0-400', 'b 2 100-300', 'c 2 350-500', 'd 1 400-600'])
  expect(lanes).toBe(3)
  // However many there are, there are only so many lanes; the last one has the rest.
  const many = layOut(record({ calls: Array.from({ length: 9 }, (_, index) => call(`t${index}`, index, 900)) }), 0, 1000)
  expect(many.bars.map(({ lane }) => lane)).toEqual([1, 2, 3, 4, 5, 5, 5, 5, 5])
  expect(many.lanes).toBe(1 + MAX_TOOL_LANES)
  // A run without calls has a lane for them all the same.
  expect(layOut(record({ model: [span('m1', 0, 10)] }), 0, 10).lanes).toBe(2)
})

it('tells apart how calls ended', () => {
  const calls = [call('ok', 0, 1), call('fail', 1, 2, { status: 'error' }), call('denied', 2, 3, { status: 'error', denied: true }), call('unmade', 3, undefined, { status: 'held', unfinished: 'not_made' })]
  expect(layOut(record({ calls }), 0, 10).bars.map(({ tone }) => tone)).toEqual(['tool', 'fail', 'denied', 'unmade'])
})

it('draws what is at work up to now, and what a run left open where it began', () => {
  const open = call('slow', 600, undefined)
  expect(layOut(record({ calls: [open], ended: false }), 0, 1000).bars).toMatchObject([{ from: 600, to: 1000, tone: 'open', milliseconds: 400 }])
  const [left] = layOut(record({ calls: [open] }), 0, 1000).bars
  expect(left).toMatchObject({ from: 600, tone: 'tool', milliseconds: 0 })
  expect(left!.to - left!.from).toBeLessThan(10)
  const writing = new RunRecord()
  writing.add({ seq: 1, runId: 'r', at: new Date(250).toISOString(), type: 'run_started', recovered: false })
  expect(layOut(writing, 0, 1000).bars).toMatchObject([{ id: 'live', lane: 0, from: 250, to: 1000, tone: 'open', milliseconds: 750 }])
})

it('places the time in which a person was waited for, one that goes on up to now', () => {
  const { waits } = layOut(record({ waits: [span('w1', 100, 300), span('w2', 800, Infinity)], ended: false }), 0, 1000)
  expect(waits).toEqual([{ from: 100, to: 300 }, { from: 800, to: 1000 }])
})

/** As many short calls, one after another, that leave no pixel between them, then a pause and one more. */
const crowd = (count: number) => [...Array.from({ length: count - 1 }, (_, index) => call(`c${index}`, index, index + 1)), call('late', 900_000, 900_001)]

it('joins bars that nobody could tell apart, from more than 400 on', () => {
  expect(layOut(record({ calls: crowd(400) }), 0, 1_000_000).bars).toHaveLength(400)
  const { bars } = layOut(record({ calls: crowd(401) }), 0, 1_000_000)
  expect(bars.map(({ id, count, milliseconds }) => [id, count, milliseconds])).toEqual([['c0', 400, 400], ['late', 1, 1]])
  expect(drawn(bars)).toEqual(['c0 1 0-6', 'late 1 900-906'])
  // Bars of a lane are joined, and not those of different ones.
  const both = layOut(record({ model: [span('m1', 0, 400)], calls: crowd(400) }), 0, 1_000_000)
  expect(both.bars.map(({ lane, count }) => [lane, count])).toEqual([[0, 1], [1, 399], [1, 1]])
})

it('shows that one of the joined calls failed, and keeps one that is at work apart', () => {
  const calls = crowd(402)
  calls[200] = { ...calls[200]!, status: 'error' }
  expect(layOut(record({ calls }), 0, 1_000_000).bars[0]).toMatchObject({ count: 401, tone: 'fail' })
  calls.push(call('now', 900_002, undefined))
  expect(layOut(record({ calls, ended: false }), 0, 1_000_000).bars.at(-1)).toMatchObject({ from: 900.002, to: 1000 })
})

it('has four to eight round times, whatever the length', () => {
  for (const length of [7, 42, 999, 1000, 12_345, 3_600_000, 86_400_000]) {
    const ticks = ticksOf(length)
    expect([ticks[0], ticks.length >= 4, ticks.length <= 8, ticks.at(-1)! <= length], `${length}`).toEqual([0, true, true, true])
  }
})
