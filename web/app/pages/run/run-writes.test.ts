import { expect, it } from 'vitest'
import { type RunWrite, writtenThings } from './run-writes'

const write = (id: string, more: Partial<RunWrite>): RunWrite => ({ kind: 'object', id, type: 'Note', change: 'updated', versionBefore: 1, versionAfter: 2, currentVersion: 2, runId: 'r', agentName: 'a', toolCallId: 'c1', toolName: 'entities_update', stepNumber: 1, at: '2026-01-01T00:00:00Z', ...more })

it('joins the writes of a run to one thing, with the last call', () => {
  const things = writtenThings([write('x', { change: 'created' }), write('y', {}), write('x', { toolCallId: 'c2', stepNumber: 2 })])
  expect(things.map((thing) => [thing.id, thing.toolCallId, thing.step])).toEqual([
    ['x', 'c2', 2],
    ['y', 'c1', 1],
  ])
})

it('keeps what two runs wrote to one thing apart', () => {
  expect(writtenThings([write('x', {}), write('x', { runId: 'child', agentName: 'b' })]).map((thing) => thing.agentName)).toEqual(['a', 'b'])
})
