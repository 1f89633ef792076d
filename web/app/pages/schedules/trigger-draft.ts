// What a person fills in about a trigger, and the request that it becomes.
import type { Agent, Schemas } from '~/api/types'
import type { EventKind, Trigger } from './triggers'

export type Draft = {
  starts: 'agent' | 'workflow'
  agentId: string
  name: string
  when: 'schedule' | 'event'
  cron: string
  timeZone: string
  missed: 'once' | 'skip'
  event: EventKind
  types: string
  labels: string
  coalesceSeconds: number | null
  input: string
  plan: 'goal' | 'tasks'
  goal: string
  tasks: unknown
}

type Settings = Record<string, unknown>

const EXAMPLE = [
  { key: 'collect', title: 'Collect what is new' },
  { key: 'report', title: 'Write the report', blockedBy: ['collect'] },
]

const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'

export const emptyDraft = (when: Draft['when']): Draft => ({
  starts: 'agent', agentId: '', name: '', when, cron: '0 8 * * MON-FRI', timeZone: zone(), missed: 'once', event: 'on_entity_created', types: '', labels: '', coalesceSeconds: null, input: '', plan: 'goal', goal: '', tasks: EXAMPLE,
})

export function draftOf(trigger: Trigger): Draft {
  const { schedule, event, dispatch } = trigger
  return {
    ...emptyDraft(schedule ? 'schedule' : 'event'),
    starts: trigger.starts,
    agentId: trigger.agentId ?? '',
    name: trigger.starts === 'workflow' ? trigger.title : '',
    input: schedule?.input ?? event?.input ?? '',
    ...(schedule && { cron: schedule.cron, timeZone: schedule.timeZone, missed: schedule.missed }),
    ...(event && { event: event.event, types: event.types.join(', '), labels: event.labels.join(', '), coalesceSeconds: event.coalesceSeconds || null }),
    ...(dispatch && { plan: dispatch.tasks ? 'tasks' : 'goal', goal: dispatch.description ?? '', tasks: dispatch.tasks ?? EXAMPLE }),
  }
}

const list = (text: string) => text.split(',').map((part) => part.trim()).filter(Boolean)

/** The settings with those of the form; what the form does not show stays, unless it belongs to the other kind of trigger. */
export function settingsOf(draft: Draft, before: Settings): Settings {
  const shared = { ...(draft.starts === 'agent' && draft.input.trim() && { input: draft.input.trim() }) }
  if (draft.when === 'schedule') {
    const kept = pick(before, draft.starts === 'agent' ? ['context', 'max_steps', 'timeout_seconds'] : [])
    return { ...kept, ...shared, ...(draft.timeZone.trim() && { time_zone: draft.timeZone.trim() }), ...(draft.missed === 'skip' && { missed: 'skip' }) }
  }
  const kept = pick(before, ['conditions', 'max_depth', ...(draft.starts === 'agent' ? ['max_concurrent'] : []), ...(draft.coalesceSeconds === null ? [] : ['coalesce_by'])])
  const types = list(draft.types)
  const labels = list(draft.labels)
  return { ...kept, ...shared, ...(types.length > 0 && { types }), ...(labels.length > 0 && { labels }), ...(draft.coalesceSeconds !== null && { coalesce_seconds: draft.coalesceSeconds }) }
}

const pick = (from: Settings, names: string[]): Settings => Object.fromEntries(names.filter((name) => from[name] !== undefined && from[name] !== null).map((name) => [name, from[name]]))

export const triggerText = (draft: Draft) => (draft.when === 'schedule' ? draft.cron.trim() : draft.event)

/** The definition's part of an agent that has this trigger. */
export function agentChange(draft: Draft, agent: Agent): Schemas['UpdateAgent'] {
  const config = agent.config as Settings
  const before = (config.trigger ?? {}) as Settings
  const { trigger: _, ...rest } = config
  const settings = settingsOf(draft, before)
  return { trigger: triggerText(draft), config: Object.keys(settings).length > 0 ? { ...rest, trigger: settings } : rest, expectedVersion: agent.version }
}

/** The definition's part of an agent without a trigger. */
export function withoutTrigger(agent: Agent): Schemas['UpdateAgent'] {
  const { trigger: _, ...config } = agent.config as Settings
  return { trigger: null, config, expectedVersion: agent.version }
}

/** The request that saves a trigger of a workflow. Settings of the workflow that the form does not show stay. */
export function workflowTrigger(draft: Draft, before: Trigger | undefined): Schemas['PutTrigger'] {
  const { description: _, tasks: __, ...rest } = before?.dispatch ?? {}
  const event = before?.event
  const known: Settings = event ? { conditions: event.conditions.length > 0 ? event.conditions : undefined, max_depth: event.maxDepth, coalesce_by: event.coalesceBy } : {}
  const plan = draft.plan === 'goal' ? { description: draft.goal.trim() } : { tasks: draft.tasks as Schemas['DispatchTask'][] }
  return { trigger: triggerText(draft), config: settingsOf(draft, known), dispatch: { ...rest, ...plan } }
}
