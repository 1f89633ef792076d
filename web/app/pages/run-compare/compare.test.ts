import { expect, it } from 'vitest'
import { type CallItem, type RecordItem, RunRecord } from '../run/run-record'
import { callsDiffer, endOf, pairCalls, stable, stepsOf } from './compare'

const call = (toolName: string, input: unknown, output: unknown = {}): CallItem => ({ kind: 'call', id: `${toolName}-${JSON.stringify(input)}`, toolName, step: 1, status: 'completed', denied: false, durationMs: 1, preview: '', at: 0, endedAt: 1, input, output })

it('pairs calls by tool, and leaves those alone that only one run made', () => {
  const pairs = pairCalls([call('search', 1), call('update', 2)], [call('update', 3), call('delete', 4)])
  expect(pairs.map(({ left, right }) => [left?.toolName, right?.toolName])).toEqual([
    ['search', undefined],
    ['update', 'update'],
    [undefined, 'delete'],
  ])
})

it('ignores ids, times and versions, but not what a call names', () => {
  expect(stable({ id: '01a1', createdAt: 'x', properties: { risk: 'high' } })).toEqual({ properties: { risk: 'high' } })
  expect(callsDiffer({ left: call('get', { id: 'Contract/a' }, { id: '1' }), right: call('get', { id: 'Contract/a' }, { id: '2' }) })).toBe(false)
  expect(callsDiffer({ left: call('get', { id: 'Contract/a' }), right: call('get', { id: 'Contract/b' }) })).toBe(true)
})

it('tells a call that was denied from one that failed', () => {
  const failed: CallItem = { ...call('delete', 1), status: 'error' }
  const denied: CallItem = { ...failed, denied: true }
  expect([call('delete', 1), failed, denied].map(endOf)).toEqual(['completed', 'failed', 'denied'])
  expect(callsDiffer({ left: failed, right: denied })).toBe(true)
  expect(callsDiffer({ left: denied, right: denied })).toBe(false)
})

it('keeps what a step said in several messages apart', () => {
  const record = new RunRecord()
  const says = (id: string, text: string): RecordItem => ({ kind: 'message', id, role: 'assistant', step: 1, text, thoughts: undefined, injected: undefined, calls: 0, tokens: null, cost: null, at: 0 })
  record.items.push(says('a', 'I look it up.'), says('b', ''), says('c', 'It is there.'))
  expect(stepsOf(record).map(({ text }) => text)).toEqual(['I look it up.\n\nIt is there.'])
})
