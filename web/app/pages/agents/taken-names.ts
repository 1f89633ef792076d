import { useQuery } from '@tanstack/react-query'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'

/** The names of the agents of the project, without the one that is edited. What the login may not read is said when it saves. */
export function useTakenNames(own?: { id: string }): string[] {
  const { allowed } = useScope('agents:read')
  const agents = useQuery({ ...agentsQuery, enabled: allowed }).data?.items ?? []
  return agents.filter(({ id }) => id !== own?.id).map(({ name }) => name)
}
