import { expect, it } from 'vitest'
import { fixedReason, saveReason, type Schedule, switchReason, type Trigger } from './triggers'

const WRITE = 'agents:write is missing'
const INVOKE = 'agents:invoke is missing'
const ofAgent = { key: '1', title: 'digest', starts: 'agent', agentId: 'a', agentName: 'digest', product: undefined, dispatch: undefined } satisfies Trigger
const ofWorkflow = { ...ofAgent, starts: 'workflow', agentId: undefined, dispatch: { description: 'Report.' } } as Trigger

it('lets whoever writes agents save triggers of workflows, and triggers of agents only with the right to start them', () => {
  for (const starts of ['agent', 'workflow'] as const) expect(saveReason(starts, { write: WRITE, invoke: undefined })).toBe(WRITE)
  expect(saveReason('agent', { write: undefined, invoke: INVOKE })).toBe(INVOKE)
  expect(saveReason('workflow', { write: undefined, invoke: INVOKE })).toBeUndefined()
})

it('says why a trigger cannot be changed', () => {
  const all = { write: undefined, invoke: undefined }
  expect(fixedReason(ofAgent, [], all)).toBe('Its agent could not be read.')
  expect(fixedReason({ ...ofWorkflow, product: 'desk' }, [], all)).toContain('The product desk brought it')
  expect(fixedReason(ofWorkflow, [], { write: WRITE, invoke: undefined })).toBe(WRITE)
})

it('takes the right to start something to resume a schedule, and none of it to pause one', () => {
  const schedule = (enabled: boolean) => ({ enabled }) as Schedule
  expect(switchReason(schedule(true), { write: undefined, invoke: INVOKE })).toBeUndefined()
  expect(switchReason(schedule(false), { write: undefined, invoke: INVOKE })).toBe(INVOKE)
  expect(switchReason(schedule(false), { write: WRITE, invoke: INVOKE })).toBe(WRITE)
})
