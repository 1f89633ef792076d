import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, unwrap } from '~/api/client'
import { isMissing } from '~/api/errors'
import type { Relationship, TraversalNode } from '~/api/graph'
import { keys } from '~/api/keys'

export const MAX_NODES = 5000
const MAX_EDGES = 20_000

function traversal(id: string, depth: number, asOf: string | undefined) {
  return {
    // One step is kept up to date by events. More steps may be thousands of objects, which are read again on request.
    queryKey: [...(depth === 1 ? keys.objects : ['explore']), 'traverse', id, depth, asOf ?? null],
    staleTime: depth === 1 ? 0 : Infinity,
    structuralSharing: false as const,
    queryFn: ({ signal }: { signal: AbortSignal }) => unwrap(api.POST('/api/graph/traverse', { body: { startIds: [id], maxDepth: depth, maxNodes: MAX_NODES, maxEdges: MAX_EDGES, asOf }, signal })),
  }
}

/** The objects around one, and those around each that was expanded. */
export function useNeighbourhood(from: string, depth: number, expanded: readonly string[], asOf: string | undefined) {
  const first = useQuery({ ...traversal(from, depth, asOf), placeholderData: keepPreviousData })
  const more = useQueries({
    queries: expanded.map((id) => traversal(id, 1, asOf)),
    combine: (results) => ({
      // An expanded object may be deleted, or not be there yet at that moment. Then it has no neighbours to show, also not
      // those that were read before, and the rest of the picture stays.
      data: results.map((result) => (isMissing(result.error) ? undefined : result.data)),
      error: results.find((result) => result.error && !isMissing(result.error))?.error,
      refetch: () => results.forEach((result) => void result.refetch()),
    }),
  })
  const { data: moreData } = more
  const shown = useMemo(() => {
    const nodes = new Map<string, TraversalNode>()
    const edges = new Map<string, Relationship>()
    let isTruncated = false
    for (const part of [first.data, ...moreData]) {
      if (!part) continue
      isTruncated ||= part.truncated
      for (const node of part.nodes) {
        if (nodes.size < MAX_NODES) nodes.set(node.id, node)
        else if (!nodes.has(node.id)) isTruncated = true
      }
      for (const edge of part.edges) if (nodes.has(edge.fromId) && nodes.has(edge.toId)) edges.set(edge.id, edge)
    }
    return { nodes: [...nodes.values()], edges: [...edges.values()], isTruncated }
  }, [first.data, moreData])
  const refetch = () => {
    void first.refetch()
    more.refetch()
  }
  return { ...shown, isLoading: first.isPending, error: first.error ?? more.error, refetch }
}
