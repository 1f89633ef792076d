import { type Query, type QueryClient, queryOptions, useQuery } from '@tanstack/react-query'
import { forgetAllDrafts, keepDraftsOf, passDraftsOn } from '~/hooks/use-draft'
import { hasUnsaved } from '~/hooks/use-unsaved'
import { api, reportUnauthorized, unwrap } from './client'
import { ApiError } from './errors'
import { keys } from './keys'
import type { Scope, Session } from './types'

/** `isOver`: it has ended while something was written. Its page stays, hidden, until somebody logs in. */
export type Login = Session & { isOver?: true }

const known = (client: QueryClient) => client.getQueryData<Login | null>(keys.session)

/** Who is logged in; `null` means nobody. */
export const sessionQuery = queryOptions<Login | null>({
  queryKey: keys.session,
  staleTime: 5 * 60_000,
  // Somebody may log in on another tab of this browser meanwhile.
  refetchOnWindowFocus: ({ state: { data } }) => (data === null || data?.isOver ? 'always' : false),
  queryFn: async ({ client }) => {
    try {
      const session = await unwrap(api.GET('/api/session'))
      if (known(client)?.isOver) await readAgain(client)
      return session
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401)) throw error
      // This request may be the first one that is refused after a login has ended, and then it says so.
      if (known(client)) reportUnauthorized()
      return known(client)?.isOver ? known(client)! : null
    }
  },
})

const isOfPage = ({ queryKey }: Query) => queryKey[0] !== keys.session[0]

/** Logs in with a token. A page that was kept is read again before it is shown. */
export async function logIn(client: QueryClient, token: string) {
  const session = await unwrap(api.POST('/api/session', { body: { token } }))
  await readAgain(client)
  client.setQueryData(keys.session, session)
}

/** Reads what a page shows for the new login, and forgets what this one may not read. */
async function readAgain(client: QueryClient) {
  const isRefused = (query: Query) => query.fetch().then(() => false, () => true)
  await Promise.all(client.getQueryCache().findAll({ predicate: isOfPage }).map(async (query) => (query.state.data === undefined || (await isRefused(query))) && client.getQueryCache().remove(query)))
}

/** Forgets the login and all that was read for it. */
function forgetSession(client: QueryClient) {
  client.removeQueries({ predicate: isOfPage })
  client.setQueryData(keys.session, null)
}

/** Forgets also what was written. */
export function discardWritten(client: QueryClient) {
  forgetAllDrafts()
  forgetSession(client)
}

/** The server says that the login has ended. Nobody chose that moment, so a page on which something is written stays. */
export function endSession(client: QueryClient) {
  const login = known(client)
  if (login?.isOver) return
  passDraftsOn()
  if (!login || !(hasUnsaved('dialog') || hasUnsaved('page'))) return forgetSession(client)
  client.removeQueries({ predicate: isOfPage, type: 'inactive' })
  // However long it takes until somebody logs in: a page without its answers would have no form.
  for (const query of client.getQueryCache().findAll({ predicate: isOfPage })) query.setOptions({ ...query.options, gcTime: Infinity })
  client.setQueryData<Login>(keys.session, { ...login, isOver: true })
}

/** Tells the other tabs of this browser who logged out. */
const LEFT = 'emergent-logged-out'

/** Logs out. What was written is only for the same token, on all tabs of this browser. */
export async function logOut(client: QueryClient) {
  const tokenId = known(client)?.tokenId
  await api.DELETE('/api/session')
  leave(client, tokenId)
  const tabs = new BroadcastChannel(LEFT)
  tabs.postMessage(tokenId)
  tabs.close()
}

function leave(client: QueryClient, tokenId: string | undefined) {
  keepDraftsOf(tokenId)
  forgetSession(client)
}

/** Follows a log-out on another tab. Returns how to stop. */
export function followLogOut(client: QueryClient): () => void {
  const tabs = new BroadcastChannel(LEFT)
  tabs.onmessage = ({ data }) => leave(client, data as string | undefined)
  return () => tabs.close()
}

export function useSession(): Login | null | undefined {
  return useQuery(sessionQuery).data
}

export const lacksScope = (scope: Scope) => `Your token lacks the scope ${scope}.`

/** Whether the login has a scope, and the sentence for a control that is disabled without it. */
export function useScope(scope: Scope): { allowed: boolean; reason: string | undefined } {
  const session = useSession()
  const allowed = session?.scopes.includes(scope) ?? false
  return { allowed, reason: allowed ? undefined : lacksScope(scope) }
}
