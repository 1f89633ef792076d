import type { QueryKey } from '@tanstack/react-query'
import { describe, expect, it } from 'vitest'
import { Invalidator, staleKeys } from './invalidations'
import { keys } from './keys'
import type { ProjectEvent } from './types'

const run = (runId: string): ProjectEvent => ({ type: 'run', runId, agent: 'a', status: 'running', at: '2026-01-01T00:00:00Z' })

function setUp() {
  const invalidated: QueryKey[] = []
  const frames: (() => void)[] = []
  const fetching = new Set<string>()
  const client = {
    invalidateQueries: async (filters?: { queryKey?: QueryKey }) => void invalidated.push(filters?.queryKey ?? []),
    isFetching: (filters?: { queryKey?: QueryKey }) => (fetching.has(JSON.stringify(filters?.queryKey)) ? 1 : 0),
  }
  const invalidator = new Invalidator(client as ConstructorParameters<typeof Invalidator>[0], (next) => frames.push(next))
  return { invalidated, frames, fetching, invalidator }
}

describe('events and what they make stale', () => {
  it('invalidate each key once in a frame, however many events come', () => {
    const { invalidated, frames, invalidator } = setUp()
    for (let count = 0; count < 1000; count++) invalidator.add(staleKeys(run('r')))
    expect([frames.length, invalidated.length]).toEqual([1, 0])
    frames[0]!()
    expect(new Set(invalidated.map((key) => JSON.stringify(key))).size).toBe(invalidated.length)
    expect(invalidated).toContainEqual(keys.run('r'))
    invalidator.add(staleKeys(run('r')))
    expect(frames.length).toBe(2)
  })

  it('leave a query that is being read until its answer is there', () => {
    const { invalidated, frames, fetching, invalidator } = setUp()
    fetching.add(JSON.stringify(keys.inbox))
    invalidator.add([keys.inbox, keys.budgets])
    frames[0]!()
    expect(invalidated).toEqual([keys.budgets])
    fetching.clear()
    frames[1]!()
    expect(invalidated).toEqual([keys.budgets, keys.inbox])
    expect(frames.length).toBe(2)
  })

  it('make the conversation that waited stale when somebody decides', () => {
    const stale = staleKeys({ type: 'approval', approvalId: 'a', runId: 'r', kind: 'approval', status: 'decided', at: '2026-01-01T00:00:00Z' })
    const begins = (key: QueryKey) => stale.some((one) => one.every((part, index) => part === key[index]))
    expect([keys.conversation('c'), keys.inboxItem('a'), keys.conversations].every(begins)).toBe(true)
    expect(begins(keys.budgets)).toBe(false)
  })

  it('know the screens of the settings that change', () => {
    const at = '2026-01-01T00:00:00Z'
    expect(staleKeys({ type: 'token', tokenId: 't', name: 'n', action: 'create', at })).toContainEqual(keys.tokens)
    expect(staleKeys({ type: 'mcp_server', serverId: 's', name: 'files', action: 'update', at })).toContainEqual(keys.mcpServer('files'))
    const product = staleKeys({ type: 'product', name: 'p', action: 'install', at })
    for (const key of [keys.products, keys.agents, keys.mcpServers, keys.triggers, keys.audit]) expect(product).toContainEqual(key)
  })
})
