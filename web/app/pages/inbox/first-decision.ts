import { queryOptions } from '@tanstack/react-query'
import { api, unwrapPage } from '~/api/client'
import type { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import type { Schemas } from '~/api/types'

type Outcome = Schemas['ApprovalOutcome']

/** What somebody did, after their name. */
export const DONE: Record<string, string> = { approve: 'approved it', deny: 'denied it', answer: 'answered it' }

/** The decision that came first, as the API says it to whoever decides second. */
export function firstDecision(error: ApiError): Partial<Outcome> {
  const details = (error.details ?? {}) as Partial<Outcome> & { decision?: unknown }
  return (typeof details.decision === 'object' && details.decision !== null ? details.decision : details) as Partial<Outcome>
}

/** The tokens, by whose names people are known to each other. */
export const tokenNamesQuery = queryOptions({
  queryKey: [...keys.tokens, 'names'],
  staleTime: 60_000,
  queryFn: ({ signal }) => unwrapPage(api.GET('/api/tokens', { params: { query: { limit: 100 } }, signal })),
})
