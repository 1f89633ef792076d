import { queryOptions } from '@tanstack/react-query'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import type { Schemas, WorkflowStatus } from '~/api/types'
import { formatCount } from '~/util/format'

export type Workflow = Schemas['Workflow']
export type WorkflowTask = Schemas['WorkflowTask']
export type WorkflowEvent = Schemas['WorkflowEvent']

export const workflowQuery = (workflowId: string) =>
  queryOptions({
    queryKey: keys.workflow(workflowId),
    queryFn: ({ signal }) => unwrap(api.GET('/api/coordination/workflows/{workflowId}', { params: { path: { workflowId } }, signal })),
  })

const MAX_TITLE = 240

/** The first line of what is to be done. The page has the rest among the facts. */
export function titleOf({ description }: Pick<Workflow, 'description'>): string {
  const line = description.trim().split('\n', 1)[0]!.trim()
  return line.length > MAX_TITLE ? `${line.slice(0, MAX_TITLE)}…` : line
}

/** Whether the dispatcher goes on with a workflow by itself. */
export const isActive = (status: WorkflowStatus) => status === 'planning' || status === 'running'
/** Whether nothing can be changed any more. */
export const isClosed = (status: WorkflowStatus) => status === 'completed' || status === 'cancelled'

/** How far a workflow is. What was skipped is over, but not done. */
export const doneText = ({ total, completed, skipped }: { total: number; completed: number; skipped: number }) =>
  `${formatCount(completed)} of ${formatCount(total)} done${skipped > 0 ? `, ${formatCount(skipped)} skipped` : ''}`

export function countTasks(tasks: readonly Pick<WorkflowTask, 'status'>[]) {
  const count = (wanted: WorkflowTask['status']) => tasks.filter(({ status }) => status === wanted).length
  return { total: tasks.length, completed: count('completed'), skipped: count('skipped') }
}

/** What a person sees of a task: a pending one whose blockers are not completed waits, and one in question needs a person. */
export type ShownStatus = WorkflowTask['status'] | 'ready' | 'escalated'

export function shownStatus(task: WorkflowTask, statuses: ReadonlyMap<string, WorkflowTask['status']>, askedTask: string | null | undefined): ShownStatus {
  if (task.id === askedTask) return 'escalated'
  if (task.status !== 'pending' || task.waiting) return task.status
  return task.blockedBy.every((key) => (statuses.get(key) ?? 'completed') === 'completed') ? 'ready' : 'pending'
}

/** Why a task does not run yet, as sentences. */
export function whyItWaits(task: WorkflowTask, tasks: readonly WorkflowTask[]): string | undefined {
  if (task.waiting) return task.waiting
  if (task.status !== 'pending') return undefined
  const open = task.blockedBy.filter((key) => tasks.some((other) => other.key === key && other.status !== 'completed'))
  if (open.length === 0) return 'It can start as soon as one of the places for tasks at work is free.'
  return `It starts when ${open.map((key) => `“${key}”`).join(', ')} ${open.length === 1 ? 'is' : 'are'} completed.`
}
