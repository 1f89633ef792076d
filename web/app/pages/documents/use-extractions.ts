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

export type Firing = Schemas['Firing']

/** The newest attempt to read a document: a run, or a firing that did not become one. */
export type Attempt = { run: Run } | { refused: Firing }

/** Whether an agent should have read a document and was not allowed to start. */
const isRefused = (firing: Firing) => firing.event === 'on_document_ingested' && firing.status === 'refused' && !firing.runId

/** The newest attempt to read each document, by document. The API lists firings and runs apart. */
export function useExtractionStates(): Map<string, Attempt> {
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
  const states = new Map<string, Attempt>()
  for (const firing of firings.data?.items ?? []) {
    const { entityId, runId, event } = firing
    if (event !== 'on_document_ingested' || !entityId || states.has(entityId)) continue
    const run = runId ? byId.get(runId) : undefined
    if (run) states.set(entityId, { run })
    else if (isRefused(firing)) states.set(entityId, { refused: firing })
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
