import { expect, it } from 'vitest'
import type { CallItem } from '../run/run-record'
import { callsDiffer, pairCalls, stable } from './compare'

const call = (toolName: string, input: unknown, output: unknown = {}): CallItem => ({ kind: 'call', id: `${toolName}-${JSON.stringify(input)}`, toolName, step: 1, status: 'completed', durationMs: 1, preview: '', at: 0, endedAt: 1, input, output })

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
