import { useQueryClient } from '@tanstack/react-query'
import type { ApiError } from '~/api/errors'
import { useScope, useSession } from '~/api/session'
import { toast } from '~/ui/toast'
import { firstDecision, tokenNamesQuery, wordsFor } from './first-decision'

/** Tells whoever decided second, in a message, who decided first and what. */
export function useTellFirst(): (error: ApiError) => void {
  const client = useQueryClient()
  const session = useSession()
  const { allowed } = useScope('admin:read')
  const nameOf = async (tokenId: string | null | undefined) => {
    if (!tokenId) return 'The server'
    if (tokenId === session?.tokenId) return 'You'
    const tokens = allowed ? await client.fetchQuery(tokenNamesQuery).catch(() => undefined) : undefined
    return tokens?.items.find((token) => token.id === tokenId)?.name ?? 'Somebody else'
  }
  const tell = async (error: ApiError) => {
    const first = firstDecision(error)
    toast(`${await nameOf(first.tokenId)} ${wordsFor('approval', first.decision)} first.`, {
      kind: 'info',
      description: `Your decision changed nothing.${first.reason ? ` The reason: ${first.reason}` : ''}`,
    })
  }
  return (error) => void tell(error)
}
