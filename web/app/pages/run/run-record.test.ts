import { expect, it } from 'vitest'
import { type RunEvent, RunRecord } from './run-record'

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

it('keeps a call as one item', () => {
  const record = new RunRecord()
  record.add(call(1, 'tool_started', 'running'))
  expect(record.modelSince).toBeUndefined()
  record.add(call(2, 'tool_completed', 'completed', { object: {} }))
  expect(record.items).toHaveLength(1)
  expect(record.items[0]).toMatchObject({ kind: 'call', status: 'completed', durationMs: 4, preview: 'id: Contract/a' })
})
