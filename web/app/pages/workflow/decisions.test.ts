import { expect, it } from 'vitest'
import { describe } from './decisions'
import type { WorkflowEvent } from './workflow-query'

const event = (type: string, data: Record<string, unknown>): WorkflowEvent => ({ seq: 1, type, data, workflowId: 'w', at: '2026-11-17T08:00:00Z' }) as WorkflowEvent

it('names the agent, the attempt and the reason', () => {
  expect(describe(event('task_started', { agent: 'spec-writer', attempt: 2, reason: 'it handles tasks of kind `design`' }))).toEqual({ what: 'Started with spec-writer, attempt 2', why: 'It handles tasks of kind `design`', tone: 'run' })
})

it('names a verdict and how a workflow ended', () => {
  expect(describe(event('task_verdict', { verdict: 'NEEDS_CHANGES', reason: 'x' })).what).toBe('Gave its verdict: NEEDS_CHANGES')
  expect(describe(event('workflow_ended', { status: 'failed' }))).toMatchObject({ what: 'The workflow ended: failed', tone: 'fail' })
})

it('shows an event that it does not know by its name', () => {
  expect(describe(event('task_moved', {}))).toEqual({ what: 'Task moved', why: undefined, tone: 'idle' })
})
