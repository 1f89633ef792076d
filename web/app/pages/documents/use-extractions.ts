import { useQueries, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Agent, Run, Schemas } from '~/api/types'

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

/** An object that was found in a passage. */
export type Found = { id: string; type: string; title: string; runId: string | undefined; toolCallId: string | undefined }

/** What was found in each passage, by the id of the passage. */
export function foundByChunk(objects: Schemas['DocumentObject'][]): Map<string, Map<string, Found>> {
  const byChunk = new Map<string, Map<string, Found>>()
  for (const { object, foundIn } of objects) {
    const { name, title } = object.properties as Record<string, unknown>
    const shown = typeof name === 'string' ? name : typeof title === 'string' ? title : (object.key ?? object.id)
    for (const { chunkId, runId, toolCallId } of foundIn) {
      const known = byChunk.get(chunkId) ?? new Map<string, Found>()
      if (!known.has(object.id)) known.set(object.id, { id: object.id, type: object.type, title: shown, runId: runId ?? undefined, toolCallId: toolCallId ?? undefined })
      byChunk.set(chunkId, known)
    }
  }
  return byChunk
}

/** The most objects of a document that are shown. */
const MAX_OBJECTS = 1000

/** The runs that read a document, and what was found in each of its passages. */
export function useExtraction(documentId: string) {
  const { allowed, reason } = useScope('admin:read')
  const runs = useQuery({
    queryKey: [...keys.extraction, 'of', documentId],
    enabled: allowed,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { q: documentId, limit: 20 } }, signal })),
  })
  const objects = useQuery({
    queryKey: [...keys.extraction, 'objects', documentId],
    queryFn: async ({ signal }) => {
      const found: Schemas['DocumentObject'][] = []
      let cursor: string | undefined
      do {
        const page = await unwrapPage(api.GET('/api/documents/{id}/objects', { params: { path: { id: documentId }, query: { limit: 100, cursor } }, signal }))
        found.push(...page.items)
        cursor = page.cursor
      } while (cursor && found.length < MAX_OBJECTS)
      return found
    },
  })
  const byChunk = useMemo(() => foundByChunk(objects.data ?? []), [objects.data])
  return { runs: runs.data?.items ?? [], byChunk, error: runs.error ?? objects.error, isLoading: allowed && runs.isPending, reason }
}
