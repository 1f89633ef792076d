import { useQueries, useQuery } from '@tanstack/react-query'
import { api, unwrap, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Agent, Run } from '~/api/types'

/** The agents that read each new document. */
export function useReaders(): Agent[] {
  const { allowed } = useScope('agents:read')
  const agents = useQuery({ ...agentsQuery, enabled: allowed }).data?.items ?? []
  return agents.filter((agent) => JSON.stringify(agent.trigger ?? null).includes('on_document_ingested'))
}

/** The newest run that read each document, by document. The API lists firings and runs apart. */
export function useExtractionStates(): Map<string, Run> {
  const { allowed } = useScope('admin:read')
  const readers = useReaders()
  const firings = useQuery({
    queryKey: [...keys.extraction, 'firings'],
    enabled: allowed && readers.length > 0,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/triggers/firings', { params: { query: { limit: 100 } }, signal })),
  })
  const runs = useQueries({
    queries: readers.map((agent) => ({
      queryKey: [...keys.extraction, 'runs', agent.name],
      enabled: allowed,
      queryFn: ({ signal }: { signal: AbortSignal }) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { agent: agent.name, limit: 100 } }, signal })),
    })),
  })
  const byId = new Map(runs.flatMap((query) => query.data?.items ?? []).map((run) => [run.id, run]))
  const states = new Map<string, Run>()
  for (const { entityId, runId, event } of firings.data?.items ?? []) {
    const run = runId ? byId.get(runId) : undefined
    if (event === 'on_document_ingested' && entityId && run && !states.has(entityId)) states.set(entityId, run)
  }
  return states
}

type Written = { id: string; type: string; key?: string; outcome?: string; mergedBy?: string }
type Item = { properties?: Record<string, unknown>; source?: { chunkId?: string } }
export type Found = { id: string; type: string; title: string; outcome: string | undefined; runId: string; toolCallId: string; chunkId: string }

/** What one call wrote, with the chunk that it names as its source. */
function foundBy(call: { id: string; runId: string; input?: unknown; output?: unknown }): Found[] {
  const input = call.input as { objects?: Item[]; source?: { chunkId?: string } } | undefined
  const output = call.output as { objects?: Written[] } | null | undefined
  if (!Array.isArray(output?.objects)) return []
  return output.objects.flatMap((object, index) => {
    const item = input?.objects?.[index]
    const chunkId = item?.source?.chunkId ?? input?.source?.chunkId
    if (!chunkId || !object.id) return []
    const { name, title } = item?.properties ?? {}
    const shown = typeof name === 'string' ? name : typeof title === 'string' ? title : (object.key ?? object.id)
    return [{ id: object.id, type: object.type, title: shown, outcome: object.outcome, runId: call.runId, toolCallId: call.id, chunkId }]
  })
}

/** The runs that read a document, and what they found in each of its chunks. */
export function useExtraction(documentId: string) {
  const { allowed, reason } = useScope('admin:read')
  const runs = useQuery({
    queryKey: [...keys.extraction, 'of', documentId],
    enabled: allowed,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { q: documentId, limit: 20 } }, signal })),
  })
  const calls = useQueries({
    queries: (runs.data?.items ?? []).map((run) => ({
      queryKey: [...keys.run(run.id), 'written', run.status],
      staleTime: run.status === 'completed' ? Infinity : 0,
      queryFn: ({ signal }: { signal: AbortSignal }) => unwrap(api.GET('/api/admin/agents/{agentId}/runs/{runId}/tool-calls', { params: { path: { agentId: run.agentId, runId: run.id }, query: { limit: 100 } }, signal })),
    })),
  })
  const byChunk = new Map<string, Map<string, Found>>()
  // The newest run comes first; of one object its first writing is shown, which says whether it was new.
  for (const found of calls.flatMap((query) => (query.data ?? []).flatMap(foundBy)).reverse()) {
    const known = byChunk.get(found.chunkId) ?? new Map<string, Found>()
    if (!known.has(found.id)) known.set(found.id, found)
    byChunk.set(found.chunkId, known)
  }
  return { runs: runs.data?.items ?? [], byChunk, error: runs.error ?? calls.find((query) => query.error)?.error, isLoading: allowed && runs.isPending, reason }
}
