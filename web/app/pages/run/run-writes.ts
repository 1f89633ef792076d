// What a run changed in the graph: for each object and relationship, how it was before and how the run left it.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { isOver, type RunDetail } from './run-queries'
import type { RunRecord } from './run-record'

export type Kind = 'object' | 'relationship'
type GraphObject = Schemas['Object']
type Relationship = Schemas['Relationship']
export type Version = GraphObject | Relationship

export type Write = {
  how: 'created' | 'changed' | 'deleted' | 'restored'
  before: Version | undefined
  after: Version | undefined
  /** The newest version of all, if somebody else wrote after the run. */
  newest: Version
  toolCallId: string | undefined
}

/** The parts of a version that a person reads. */
export function factsOf(version: Version): Record<string, unknown> {
  const { type, properties } = version
  if ('fromId' in version) return { type, from: version.fromId, to: version.toId, ...(version.weight !== null && version.weight !== undefined && { weight: version.weight }), properties }
  return { type, ...(version.key && { key: version.key }), ...(version.status && { status: version.status }), ...(version.labels.length > 0 && { labels: version.labels }), properties }
}

const isOf = (version: Version, runId: string) => version.author.type === 'run' && version.author.runId === runId

/** What the run did to something with this history, newest version first; undefined if it did nothing. */
export function writeOf(history: Version[], runId: string): Write | undefined {
  const own = history.filter((version) => isOf(version, runId))
  const last = own[0]
  const first = own.at(-1)
  if (!first || !last) return undefined
  const before = history.find((version) => version.version === first.version - 1)
  const existed = before !== undefined && !before.deletedAt
  const how = last.deletedAt ? 'deleted' : existed ? 'changed' : before ? 'restored' : 'created'
  return { how, before: existed ? before : undefined, after: last.deletedAt ? undefined : last, newest: history[0] ?? last, toolCallId: last.author.type === 'run' ? (last.author.toolCallId ?? undefined) : undefined }
}

/** What a run did to one object or relationship; null if it did nothing. */
export const writeQuery = (runId: string, kind: Kind, id: string, version: number) =>
  queryOptions({
    queryKey: [...(kind === 'object' ? keys.object(id) : keys.objects), 'write', kind, id, runId, version],
    queryFn: async ({ signal }) => {
      const options = { params: { path: { id }, query: { limit: 100 } }, signal }
      const history: Version[] = await (kind === 'object' ? unwrap(api.GET('/api/graph/objects/{id}/history', options)) : unwrap(api.GET('/api/graph/relationships/{id}/history', options)))
      return writeOf([...history].sort((a, b) => b.version - a.version), runId) ?? null
    },
  })

export const useWrite = (runId: string, kind: Kind, id: string, version: number) => useQuery(writeQuery(runId, kind, id, version))

/** The ids of what the run wrote: what its calls name, and, once it has ended, what a revert would undo. */
export function useWrittenIds(run: RunDetail, record: RunRecord) {
  const { allowed } = useScope('admin:write')
  const plan = useQuery({
    queryKey: [...keys.run(run.id), 'written'],
    enabled: allowed && isOver(run.status),
    queryFn: ({ signal }) => unwrap(api.POST('/api/admin/agents/{agentId}/runs/{runId}/revert', { params: { path: { agentId: run.agentId, runId: run.id } }, body: { dryRun: true }, signal })),
  })
  const ids = new Map<string, Kind>(record.written)
  for (const one of [...(plan.data?.undone ?? []), ...(plan.data?.conflicts ?? [])]) if (one.kind === 'object' || one.kind === 'relationship') ids.set(one.id, one.kind)
  const documents = (plan.data?.undone ?? []).filter((one) => one.kind === 'document').map((one) => one.id)
  return { ids: [...ids], documents, isLoading: plan.isLoading, error: plan.error, refetch: plan.refetch }
}
