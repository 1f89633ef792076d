// The events of a workflow as sentences. What an event adds to its type stands in its data.
import type { Tone } from '~/ui/Badge'
import { capitalised, formatDuration, words } from '~/util/format'
import type { WorkflowEvent } from './workflow-query'

export type Decision = { what: string; why: string | undefined; tone: Tone }

const TEXTS: Record<string, [what: string, tone: Tone]> = {
  workflow_started: ['The workflow started', 'run'],
  planning_started: ['Planning started', 'run'],
  plan_made: ['The plan became tasks', 'ok'],
  plan_refused: ['The plan was refused', 'fail'],
  escalated: ['A person is asked', 'wait'],
  workflow_resumed: ['The workflow was resumed', 'run'],
  budget_changed: ['The budget was changed', 'idle'],
  workflow_ended: ['The workflow ended', 'idle'],
  task_added: ['Joined the workflow', 'idle'],
  task_started: ['Started', 'run'],
  task_resumed: ['Continued', 'run'],
  task_completed: ['Completed', 'ok'],
  task_retried: ['Is tried again', 'warn'],
  task_sent_back: ['Sent back', 'warn'],
  task_verdict: ['Gave its verdict', 'run'],
  task_reopened: ['Opened again', 'idle'],
  task_failed: ['Failed', 'fail'],
  task_skipped: ['Skipped', 'idle'],
  task_paused: ['Paused', 'pause'],
  task_asked_again: ['Asked for its verdict again', 'warn'],
  task_waiting: ['Waits for something outside', 'idle'],
  model_retry: ['The provider failed; the model is asked again', 'warn'],
  judge_failed: ['The judge gave no usable answer; the rules decide', 'warn'],
  discussion_started: ['Discussion started', 'run'],
  discussion_turn: ['Turn in the discussion', 'idle'],
  discussion_entry: ['Said in the discussion', 'idle'],
  discussion_resolved: ['Discussion resolved', 'ok'],
  discussion_escalated: ['Discussion waits for a person', 'wait'],
  discussion_decided: ['A person decided the discussion', 'ok'],
  tasks_refused: ['Further tasks were refused', 'fail'],
}

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)

/** Says what was decided and why. An event of a type that is not known yet is shown by its name. */
export function describe({ type, data }: WorkflowEvent): Decision {
  const [what, tone] = TEXTS[type] ?? [capitalised(words(type)), 'idle' as Tone]
  const agent = text(data.agent)
  const attempt = typeof data.attempt === 'number' && data.attempt > 1 ? `, attempt ${data.attempt}` : ''
  const verdict = text(data.verdict)
  const status = type === 'workflow_ended' ? text(data.status) : undefined
  const named = [what, agent && (type === 'task_started' ? `with ${agent}` : `: ${agent}`), verdict && `: ${verdict}`, status && `: ${words(status)}`]
    .filter(Boolean)
    .join(' ')
    .replaceAll(' :', ':')
  const people = Array.isArray(data.participants) ? `Between ${data.participants.join(', ')}` : undefined
  const wait = typeof data.waitMs === 'number' ? `After ${formatDuration(data.waitMs)}` : undefined
  const why = text(data.reason) ?? text(data.text) ?? text(data.error) ?? text(data.note) ?? people ?? wait ?? (type === 'workflow_started' ? text(data.description) : undefined)
  return { what: named + attempt, why: why && capitalised(why), tone: type === 'workflow_ended' && status ? (status === 'completed' ? 'ok' : status === 'failed' ? 'fail' : 'idle') : tone }
}
