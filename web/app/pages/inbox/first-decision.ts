import { queryOptions } from '@tanstack/react-query'
import { api, unwrapPage } from '~/api/client'
import type { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import type { Schemas } from '~/api/types'

type Outcome = Schemas['ApprovalOutcome']

const CALL = { approve: 'approved it', deny: 'denied it', answer: 'answered it' }
const DONE: Record<string, Partial<Record<string, string>>> = {
  discussion: { approve: 'accepted the last proposal', deny: 'cancelled the workflow' },
  escalation: { approve: 'resumed the workflow', deny: 'cancelled the workflow' },
}

/** What somebody did with a request of a kind, after their name. */
export const wordsFor = (kind: string, decision = '') => (DONE[kind] ?? CALL)[decision as keyof typeof CALL] ?? 'decided it'

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
