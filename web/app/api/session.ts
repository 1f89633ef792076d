import { type QueryClient, queryOptions, useQuery } from '@tanstack/react-query'
import { api, reportUnauthorized, unwrap } from './client'
import { ApiError } from './errors'
import { keys } from './keys'
import type { Scope, Session } from './types'

/** Who is logged in; `null` means nobody. */
export const sessionQuery = queryOptions({
  queryKey: keys.session,
  staleTime: 5 * 60_000,
  queryFn: async ({ client }): Promise<Session | null> => {
    try {
      return await unwrap(api.GET('/api/session'))
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401)) throw error
      // This request may be the first one that is refused after a login has ended, and then it says so.
      if (client.getQueryData(keys.session)) reportUnauthorized()
      return null
    }
  },
})

export const logIn = (token: string) => unwrap(api.POST('/api/session', { body: { token } }))
export const logOut = () => api.DELETE('/api/session')

/** Sets who is logged in, and forgets what was read for somebody else. */
export function changeSession(client: QueryClient, session: Session | null) {
  client.removeQueries({ predicate: (query) => query.queryKey[0] !== keys.session[0] })
  client.setQueryData(keys.session, session)
}

export function useSession(): Session | null | undefined {
  return useQuery(sessionQuery).data
}

/** Whether the login has a scope, and the sentence for a control that is disabled without it. */
export function useScope(scope: Scope): { allowed: boolean; reason: string | undefined } {
  const session = useSession()
  const allowed = session?.scopes.includes(scope) ?? false
  return { allowed, reason: allowed ? undefined : `Your token lacks the scope ${scope}.` }
}
