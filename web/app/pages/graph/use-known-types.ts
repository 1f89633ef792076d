import { useQuery } from '@tanstack/react-query'
import { packsQuery, recentTypesQuery } from '~/api/graph'
import { useScope } from '~/api/session'

/** The types that packs describe and the types of the newest objects, by name. */
export function useKnownTypes(): string[] {
  const { allowed } = useScope('graph:read')
  const packs = useQuery({ ...packsQuery, enabled: allowed }).data ?? []
  const recent = useQuery({ ...recentTypesQuery, enabled: allowed }).data ?? []
  return [...new Set([...recent, ...packs.flatMap((pack) => Object.keys(pack.objectTypeSchemas))])].sort((a, b) => a.localeCompare(b))
}
