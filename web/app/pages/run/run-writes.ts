// What a run changed in the graph: for each object and relationship, how it was before and how the run left it.
import { keepPreviousData, queryOptions, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, unwrap, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import type { Schemas } from '~/api/types'
import { useRows } from '~/table/use-infinite'
import type { RunDetail } from './run-queries'

export type Kind = 'object' | 'relationship'
export type RunWrite = Schemas['RunWrite']
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

/** A thing that a run wrote, with the last call that did. */
export type WrittenThing = { id: string; kind: RunWrite['kind']; name: string | undefined; runId: string; agentName: string; toolCallId: string | undefined; toolName: string | undefined; step: number | undefined }

/** Joins the writes of one run to one thing, in the order of their first writes. */
export function writtenThings(writes: RunWrite[]): WrittenThing[] {
  const things = new Map<string, WrittenThing>()
  for (const write of writes) {
    const { id, kind, name, runId, agentName, toolCallId, toolName, stepNumber } = write
    things.set(`${runId} ${id}`, { id, kind, name: name ?? undefined, runId, agentName, toolCallId: toolCallId ?? undefined, toolName: toolName ?? undefined, step: stepNumber ?? undefined })
  }
  return [...things.values()]
}

/** What the run wrote, page by page; with `tree` also what the runs below it wrote. `round` grows with each call that ends. */
export function useWrites(run: RunDetail, tree: boolean, round: number) {
  const query = useInfiniteQuery({
    queryKey: [...keys.run(run.id), 'writes', tree, round],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/admin/agents/{agentId}/runs/{runId}/writes', { params: { path: { agentId: run.agentId, runId: run.id }, query: { limit: 100, tree, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
    placeholderData: keepPreviousData,
  })
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  return { things: useMemo(() => writtenThings(rows), [rows]), hasMore, isLoadingMore, onMore, isLoading: query.isPending, error: query.error, refetch: query.refetch }
}
