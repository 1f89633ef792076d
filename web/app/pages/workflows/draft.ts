// What a person describes in the dispatch dialog, and the request that it becomes.
import type { Schemas } from '~/api/types'
import { amountOf } from '~/util/amount'
import { jsonText, parseJson } from '~/util/json'

export type DraftTask = { id: number; key: string; title: string; description: string; agent: string; blockedBy: string[] }
export type Mode = 'tasks' | 'goal' | 'json'
export type Draft = {
  mode: Mode
  description: string
  tasks: DraftTask[]
  json: string
  /** The JSON as it was made of the tasks or the goal. It differs from `json` once that was edited by hand. */
  madeJson: string
  model: string
  budgetUsd: string
  budgetTokens: string
  maxConcurrent: string
  onFailure: 'escalate' | 'skip'
}
export type DispatchBody = Schemas['Dispatch']
export type Problems = ReadonlyMap<string, string>

let lastId = 0
export const newTask = (values: Partial<DraftTask> = {}): DraftTask => ({ id: ++lastId, key: '', title: '', description: '', agent: '', blockedBy: [], ...values })

export const emptyDraft = (): Draft => ({ mode: 'tasks', description: '', tasks: [newTask()], json: '', madeJson: '', model: '', budgetUsd: '', budgetTokens: '', maxConcurrent: '', onFailure: 'escalate' })

/** A key from a title: `Write the notes` is `write-the-notes`. */
export const keyOf = (task: Pick<DraftTask, 'key' | 'title'>) =>
  task.key.trim() ||
  task.title
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 64)

export const parseModel = (text: string): DispatchBody['model'] => {
  const [provider, ...name] = text.trim().split('/')
  if (!provider) return null
  return name.length > 0 ? { provider, name: name.join('/') } : { name: provider }
}

const number = (text: string, whole?: boolean) => amountOf(text, whole) ?? undefined

const withoutEmpty = (body: DispatchBody): DispatchBody => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined && value !== null && value !== '')) as DispatchBody

/** The request of a draft. Throws if its JSON cannot be read or a number is none. */
export function toBody(draft: Draft): DispatchBody {
  if (draft.mode === 'json') {
    const value = parseJson(draft.json) as unknown
    return Array.isArray(value) ? { tasks: value } : (value as DispatchBody)
  }
  const settings: DispatchBody = {
    model: parseModel(draft.model),
    budgetUsd: number(draft.budgetUsd),
    budgetTokens: number(draft.budgetTokens),
    maxConcurrent: number(draft.maxConcurrent),
    onFailure: draft.onFailure,
  }
  if (draft.mode === 'goal') return withoutEmpty({ ...settings, description: draft.description })
  const tasks = draft.tasks.map((task) => ({
    key: keyOf(task),
    title: task.title.trim(),
    ...(task.description.trim() && { description: task.description.trim() }),
    ...(task.agent && { assignedAgent: task.agent }),
    ...(task.blockedBy.length > 0 && { blockedBy: task.blockedBy }),
  }))
  return withoutEmpty({ ...settings, tasks })
}

/** Numbers that are none, by their field. */
export function localProblems(draft: Draft): Problems {
  const found = new Map<string, string>()
  if (draft.mode === 'json') {
    try {
      parseJson(draft.json)
    } catch (error) {
      found.set('json', draft.json.trim() ? `This is no JSON: ${(error as Error).message}` : 'Write a list of tasks, or an object with tasks and settings.')
    }
    return found
  }
  for (const field of ['budgetUsd', 'budgetTokens', 'maxConcurrent'] as const) {
    const whole = field !== 'budgetUsd'
    const value = number(draft[field], whole)
    if (value !== undefined && !(value > 0)) found.set(field, `A ${whole ? 'whole ' : ''}number above zero is needed, such as ${whole ? 90 : 2.5} or 90,000.`)
  }
  return found
}

/** What changes with the mode. JSON is made anew each time it is opened, unless it was edited by hand. */
export function toMode(draft: Draft, mode: Mode): Partial<Draft> {
  if (mode !== 'json' || draft.mode === 'json' || draft.json !== draft.madeJson || localProblems(draft).size > 0) return { mode }
  const json = jsonText(toBody(draft), 2)
  return { mode, json, madeJson: json }
}

/** What the server said about each field. */
export function problemsOf(details: unknown): Problems {
  if (!Array.isArray(details)) return new Map()
  const list = (details as { field?: string; reason?: string }[]).filter(({ field, reason }) => field && reason)
  return new Map(list.map(({ field, reason }) => [field!, reason!]))
}

/** The first problem of a field or of something inside it. */
export function problemAt(problems: Problems, field: string): string | undefined {
  for (const [name, reason] of problems) if (name === field || name.startsWith(`${field}[`) || name.startsWith(`${field}.`)) return reason
  return undefined
}

const SETTINGS = /^(model$|budget|maxConcurrent)/

/** Whether the form has a field that shows the problem of this field of the request. */
export function hasField(mode: Mode, field: string): boolean {
  if (mode === 'json') return false
  return SETTINGS.test(field) || (mode === 'tasks' ? field.startsWith('tasks[') : field === 'description' || field === 'planner')
}

/** Why there is no planner, with the ways out that this form has. */
export const plannerProblem = (problems: Problems): string | undefined =>
  problemAt(problems, 'planner')?.replace('install emergent.code, name another planner, or give `tasks`', 'install emergent.code under Products, or describe the tasks yourself under Tasks')
