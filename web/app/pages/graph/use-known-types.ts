import { useQuery } from '@tanstack/react-query'
import { packsQuery, typeCountsQuery } from '~/api/graph'
import { useScope } from '~/api/session'

/** The number of objects of each type, by type; undefined until it is known. */
export function useTypeCounts(): Map<string, number> | undefined {
  const { allowed } = useScope('graph:read')
  const counts = useQuery({ ...typeCountsQuery, enabled: allowed }).data
  return counts && new Map(counts.objects.map(({ type, count }) => [type, count]))
}

/** The types that packs describe and the types that objects have, by name. */
export function useKnownTypes(): string[] {
  const { allowed } = useScope('graph:read')
  const packs = useQuery({ ...packsQuery, enabled: allowed }).data ?? []
  const counts = useTypeCounts()
  return [...new Set([...(counts?.keys() ?? []), ...packs.flatMap((pack) => Object.keys(pack.objectTypeSchemas))])].sort((a, b) => a.localeCompare(b))
}
