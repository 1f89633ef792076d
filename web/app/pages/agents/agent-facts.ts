import type { Schemas } from '~/api/types'

type Model = Schemas['Model']

/** A model as `provider/name`. */
export const modelName = (model: Model | null | undefined) => (model ? (model.provider ? `${model.provider}/${model.name}` : model.name) : 'Default of the server')

/** The share of ended runs that completed; undefined when none has ended. */
export function successRate(runs: Schemas['AgentRuns'] | undefined): { text: string; detail: string } | undefined {
  const completed = runs?.byStatus['completed'] ?? 0
  const ended = completed + (runs?.byStatus['failed'] ?? 0) + (runs?.byStatus['paused'] ?? 0)
  if (ended === 0) return undefined
  return { text: `${Math.round((completed / ended) * 100)} % of ${ended}`, detail: `${completed} of ${ended} ended runs completed` }
}
