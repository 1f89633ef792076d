import { expect, it } from 'vitest'
import type { Agent } from '~/api/types'
import { fixedReason, saveReason, type Schedule, switchReason, type Trigger } from './triggers'

const WRITE = 'agents:write is missing'
const INVOKE = 'agents:invoke is missing'
const ofAgent = { key: '1', title: 'digest', starts: 'agent', agentId: 'a', agentName: 'digest', product: undefined, dispatch: undefined } satisfies Trigger
const ofWorkflow = { ...ofAgent, starts: 'workflow', agentId: undefined, dispatch: { description: 'Report.' } } as Trigger

it('lets whoever writes agents save triggers only with the right to start agents', () => {
  expect(saveReason({ write: WRITE, invoke: undefined })).toBe(WRITE)
  expect(saveReason({ write: undefined, invoke: INVOKE })).toBe(INVOKE)
  expect(saveReason({ write: undefined, invoke: undefined })).toBeUndefined()
})

it('says why a trigger cannot be changed or deleted', () => {
  const all = { write: undefined, invoke: undefined }
  for (const change of ['edit', 'delete'] as const) {
    expect(fixedReason(ofAgent, change, [], all)).toBe('Its agent could not be read.')
    expect(fixedReason({ ...ofWorkflow, product: 'desk' }, change, [], all)).toContain('The product desk brought it')
    expect(fixedReason(ofWorkflow, change, [], { write: WRITE, invoke: undefined })).toBe(WRITE)
  }
  const mayNotStart = { write: undefined, invoke: INVOKE }
  expect(fixedReason(ofWorkflow, 'edit', [], mayNotStart)).toBe(INVOKE)
  expect(fixedReason(ofWorkflow, 'delete', [], mayNotStart)).toBeUndefined()
  expect(fixedReason(ofAgent, 'delete', [{ id: 'a' } as Agent], mayNotStart)).toBe(INVOKE)
})

it('takes the right to start something to resume a schedule, and none of it to pause one', () => {
  const schedule = (enabled: boolean) => ({ enabled }) as Schedule
  expect(switchReason(schedule(true), { write: undefined, invoke: INVOKE })).toBeUndefined()
  expect(switchReason(schedule(false), { write: undefined, invoke: INVOKE })).toBe(INVOKE)
  expect(switchReason(schedule(false), { write: WRITE, invoke: INVOKE })).toBe(WRITE)
})
