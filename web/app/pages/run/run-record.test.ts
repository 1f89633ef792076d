import { expect, it } from 'vitest'
import { type RunEvent, RunRecord } from './run-record'
import { stepsOf } from './StepsTable'
import { layOut, SCALE } from './timeline-layout'
import { callProblem } from './WarningsCard'

const at = '2026-11-17T08:00:00Z'
const event = (seq: number | null, body: object): RunEvent => ({ seq, runId: 'r', at, ...body }) as RunEvent
const answer = (seq: number, step: number, text: string) => event(seq, { type: 'message', message: { id: `m${seq}`, runId: 'r', role: 'assistant', content: { text, toolCalls: [] }, stepNumber: step, createdAt: at } })
const call = (seq: number, type: string, status: string, output: unknown = null) =>
  event(seq, { type, toolCall: { id: 'c1', runId: 'r', messageId: 'm', toolName: 'entities_update', input: { id: 'Contract/a' }, output, status, durationMs: output ? 4 : null, stepNumber: 1, createdAt: at } })

it('takes each durable event once, however often a stream repeats it', () => {
  const record = new RunRecord()
  for (const one of [event(1, { type: 'run_started', recovered: false }), answer(2, 1, 'Hello'), answer(2, 1, 'Hello'), event(1, { type: 'run_started', recovered: false })]) record.add(one)
  expect(record.items.map((item) => item.kind)).toEqual(['notice', 'message'])
  expect(record.events).toBe(2)
})

it('replaces the text that was written live by the message, and drops it when the run is recovered', () => {
  const record = new RunRecord()
  record.add(event(null, { type: 'text_so_far', stepNumber: 1, text: 'The rep' }))
  record.add(event(null, { type: 'text_delta', stepNumber: 1, text: 'ort' }))
  expect(record.live?.text).toBe('The report')
  record.add(event(1, { type: 'run_started', recovered: true }))
  expect(record.live).toBeUndefined()
  record.add(event(null, { type: 'text_delta', stepNumber: 1, text: 'A' }))
  record.add(answer(2, 1, 'A report'))
  expect(record.live).toBeUndefined()
  expect(record.items.at(-1)).toMatchObject({ kind: 'message', text: 'A report' })
})

it('names the run below whose model is asked again', () => {
  const record = new RunRecord()
  const retry = { type: 'model_retry', stepNumber: 1, model: 'p/m', error: 'slow down', waitMs: 2500 }
  record.add(event(1, { ...retry, attempt: 1 }))
  for (const attempt of [1, 2]) record.add(event(null, { ...retry, attempt, childRunId: 'c', agentName: 'reader' }))
  expect(record.items.map((item) => (item.kind === 'notice' ? [item.text, item.childRunId] : []))).toEqual([
    ['The provider failed; attempt 2 follows after 2.5 s', undefined],
    ['The provider failed for reader; attempt 2 follows after 2.5 s', 'c'],
    ['The provider failed for reader; attempt 3 follows after 2.5 s', 'c'],
  ])
  expect(new Set(record.items.map((item) => item.id)).size).toBe(3)
})

it('keeps a call as one item', () => {
  const record = new RunRecord()
  record.add(call(1, 'tool_started', 'running'))
  expect(record.modelSince).toBeUndefined()
  record.add(call(2, 'tool_completed', 'completed', { object: {} }))
  expect(record.items).toHaveLength(1)
  expect(record.items[0]).toMatchObject({ kind: 'call', status: 'completed', durationMs: 4, preview: 'id: Contract/a' })
})

const later = (seq: number, seconds: number, body: object): RunEvent => ({ ...event(seq, body), at: new Date(Date.parse(at) + seconds * 1000).toISOString() })
const request = { approvalId: 'a1', toolCallId: 'c1', toolName: 'entities_update', kind: 'approval' }

it('says that a call waits for a person until its request is decided, in whichever order the events come', () => {
  for (const order of [[call(1, 'tool_started', 'running'), event(2, { type: 'approval_requested', ...request })], [event(1, { type: 'approval_requested', ...request }), call(2, 'tool_started', 'running')]]) {
    const record = new RunRecord()
    for (const one of order) record.add(one)
    const held = record.items.find((item) => item.kind === 'call')!
    expect(held).toMatchObject({ status: 'held' })
    expect([...record.requests.keys()]).toEqual(['a1'])
    record.add(event(3, { type: 'approval_decided', ...request, status: 'decided', decision: 'approve', edited: false }))
    expect(held).toMatchObject({ status: 'running' })
    expect(record.requests.size).toBe(0)
    record.add(call(4, 'tool_completed', 'completed', {}))
    expect(held).toMatchObject({ status: 'completed' })
  }
})

it('does not say that a call waits or runs after the run has ended', () => {
  const record = new RunRecord()
  record.add(call(1, 'tool_started', 'running'))
  record.add(event(2, { type: 'approval_requested', ...request }))
  record.add(event(3, { type: 'tool_started', toolCall: { id: 'c2', runId: 'r', messageId: 'm', toolName: 'web_fetch', input: {}, output: null, status: 'running', durationMs: null, stepNumber: 1, createdAt: at } }))
  record.add(call(4, 'tool_started', 'running'))
  record.add(event(5, { type: 'run_ended', status: 'cancelled' }))
  expect(record.items.filter((item) => item.kind === 'call').map(({ id, unfinished }) => [id, unfinished])).toEqual([['c1', 'not_made'], ['c2', 'unknown']])
  expect(layOut(record, Date.parse(at) - 9000, Date.parse(at)).bars.map(({ id, tone }) => [id, tone])).toEqual([['c1', 'unmade'], ['c2', 'tool']])
})

it('stops the clock while the run waits for a person', () => {
  const record = new RunRecord()
  const start = Date.parse(at)
  record.add(later(1, 0, { type: 'run_started', recovered: false }))
  record.add(later(2, 10, { type: 'run_waiting', waitingFor: 'approval' }))
  expect(record.timeUsed(start, start + 500_000)).toBe(10_000)
  record.add(later(3, 510, { type: 'run_continued' }))
  expect(record.timeUsed(start, start + 515_000)).toBe(15_000)
})

it('tells a call that was denied from one that failed', () => {
  const record = new RunRecord()
  const ended = (seq: number, id: string, more: object) => record.add(event(seq, { type: 'tool_completed', toolCall: { id, runId: 'r', messageId: 'm', toolName: 'entities_delete', input: {}, output: {}, status: 'error', durationMs: 0, stepNumber: 1, createdAt: at, ...more } }))
  ended(1, 'c1', { denied: true })
  expect(record.items[0]).toMatchObject({ status: 'error', denied: true })
  expect(callProblem(record, 2)).toBe('Of 2 tool calls: 1 denied, 0 failed.')
  expect(stepsOf(record)[0]).toMatchObject({ calls: 1, denied: 1, failed: 0 })
  const bar = layOut(record, Date.parse(at) - 9000, Date.parse(at)).bars.find(({ id }) => id === 'c1')
  expect(bar).toMatchObject({ tone: 'denied', to: SCALE })
  expect(bar!.to - bar!.from).toBeGreaterThan(5)
  ended(2, 'c2', {})
  expect(callProblem(record, 2)).toBe('Of 2 tool calls: 1 denied, 1 failed.')
})
