import { useQueries, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Agent, Schemas } from '~/api/types'
import { type Attempt, extractionStates, isRefused } from './extraction-states'

/** The agents that read each new document. */
export function useReaders(): Agent[] {
  const { allowed } = useScope('agents:read')
  const agents = useQuery({ ...agentsQuery, enabled: allowed }).data?.items ?? []
  return agents.filter((agent) => JSON.stringify(agent.trigger ?? null).includes('on_document_ingested'))
}

/** What became of each document, by document. */
export function useExtractionStates(): Map<string, Attempt> {
  const { allowed } = useScope('admin:read')
  const readers = useReaders()
  const queries = readers.map(({ id }) => ({
    queryKey: [...keys.extraction, 'reader', id],
    enabled: allowed,
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      Promise.all([
        unwrapPage(api.GET('/api/admin/triggers/firings', { params: { query: { agentId: id, limit: 100 } }, signal })),
        unwrapPage(api.GET('/api/admin/runs', { params: { query: { agent: id, limit: 100 } }, signal })),
      ]),
  }))
  const pages = useQueries({ queries }).flatMap(({ data }) => (data ? [data] : []))
  return extractionStates(pages.flatMap(([firings]) => firings.items), pages.flatMap(([, runs]) => runs.items))
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

/** The runs that read a document, the refusals of runs that should have, and what was found in each of its passages. */
export function useExtraction(documentId: string) {
  const { allowed, reason } = useScope('admin:read')
  const runs = useQuery({
    queryKey: [...keys.extraction, 'of', documentId],
    enabled: allowed,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { q: documentId, limit: 20 } }, signal })),
  })
  const refusals = useQuery({
    queryKey: [...keys.extraction, 'refusals'],
    enabled: allowed,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/triggers/firings', { params: { query: { status: 'refused', limit: 100 } }, signal })),
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
  const refused = (refusals.data?.items ?? []).filter((firing) => firing.entityId === documentId && isRefused(firing))
  return { runs: runs.data?.items ?? [], refused, byChunk, error: runs.error ?? refusals.error ?? objects.error, isLoading: allowed && (runs.isPending || refusals.isPending), reason }
}
