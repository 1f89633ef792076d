// Schedules and event triggers as one kind of row, and what can be done with each.
import { queryOptions } from '@tanstack/react-query'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import type { Agent, Schemas } from '~/api/types'

export type Schedule = Schemas['Schedule']
export type EventTrigger = Schemas['EventTrigger']
export type EventKind = Schemas['EventKind']

/** A trigger with what the page needs of it, whether a time or an event starts it. */
export type Trigger = {
  key: string
  /** The name of the job or of the trigger of a workflow; of an agent's own trigger the name of the agent. */
  title: string
  starts: 'agent' | 'workflow'
  agentId: string | undefined
  agentName: string
  product: string | undefined
  dispatch: Schemas['Dispatch'] | undefined
  schedule?: Schedule
  event?: EventTrigger
}

export const EVENTS: Record<EventKind, string> = {
  on_document_ingested: 'A document is ingested',
  on_entity_created: 'An object is created',
  on_entity_updated: 'An object is changed',
  on_relationship_created: 'A relationship is created',
}

export const triggersQuery = queryOptions({
  queryKey: keys.triggers,
  // Nothing tells of a time that was skipped, so the page asks now and then.
  refetchInterval: 30_000,
  queryFn: ({ signal }) => unwrap(api.GET('/api/admin/triggers', { signal })),
})

const common = (one: Schedule | EventTrigger) => ({
  starts: one.dispatch ? ('workflow' as const) : ('agent' as const),
  agentId: one.agentId ?? undefined,
  agentName: one.agentName,
  product: one.product ?? undefined,
  dispatch: one.dispatch ?? undefined,
})

/** The name that a person knows: `agent:digest` is the trigger of `digest`. */
const titleOf = (name: string | null | undefined, agent: string) => (name && !name.startsWith('agent:') ? name : agent)

export const scheduleRows = (schedules: Schedule[]): Trigger[] => schedules.map((one) => ({ ...common(one), key: one.id, title: titleOf(one.name, one.agentName), schedule: one }))
export const eventRows = (events: EventTrigger[]): Trigger[] => events.map((one) => ({ ...common(one), key: `${one.event} ${one.name ?? one.agentName}`, title: titleOf(one.name, one.agentName), event: one }))

/** Why the login may not do something: what it says about each scope that it lacks. */
export type Lacking = { write: string | undefined; invoke: string | undefined }

/** Why a trigger cannot be saved: it starts agents without a request, also when the token that saved it is gone. */
export const saveReason = (lacking: Lacking): string | undefined => lacking.write ?? lacking.invoke

/** Why a trigger cannot be changed or deleted here. Deleting that of an agent changes the agent, which takes what saving it takes. */
export function fixedReason(trigger: Trigger, change: 'edit' | 'delete', agents: Agent[], lacking: Lacking): string | undefined {
  if (trigger.product) return `The product ${trigger.product} brought it: it changes and goes with the product.`
  if (trigger.starts === 'agent' && !agents.some((agent) => agent.id === trigger.agentId)) return 'Its agent could not be read.'
  return trigger.starts === 'workflow' && change === 'delete' ? lacking.write : saveReason(lacking)
}

/** Why a schedule cannot be paused, or resumed: who resumes it starts something. */
export const switchReason = (schedule: Schedule, lacking: Lacking): string | undefined => lacking.write ?? (schedule.enabled ? undefined : lacking.invoke)

/** What starts it, in a few words. */
export function describeEvent(event: EventTrigger): string {
  const parts = [event.types.length > 0 && event.types.join(' or '), event.labels.length > 0 && `labelled ${event.labels.join(', ')}`, event.conditions.length > 0 && `${event.conditions.length} ${event.conditions.length === 1 ? 'condition' : 'conditions'}`].filter(Boolean)
  return parts.length > 0 ? parts.join(' · ') : 'Of any type'
}
