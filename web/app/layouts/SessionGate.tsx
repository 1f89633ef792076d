import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Activity, type ReactNode, useEffect, useState } from 'react'
import { onUnauthorized } from '~/api/client'
import { discardWritten, endSession, followLogOut, sessionQuery } from '~/api/session'
import { hasDrafts } from '~/hooks/use-draft'
import { ErrorState } from '~/ui/ErrorState'
import { LoginScreen } from './LoginScreen'

const ENDED = 'Your login has ended: its token was revoked or has expired, or you logged out elsewhere. Log in again to go on.'

/**
 * Shows the pages to whoever is logged in, and the login to everybody else. The server decides who that is. A page on
 * which something was written when the login ended stays below the new login, hidden and without its effects.
 */
export function SessionGate({ children }: { children: ReactNode }) {
  const client = useQueryClient()
  const { data: session, error, refetch } = useQuery(sessionQuery)
  const [why, setWhy] = useState<string>()

  useEffect(() => {
    const stop = onUnauthorized(() => {
      setWhy(ENDED)
      endSession(client)
    })
    const unfollow = followLogOut(client)
    return () => {
      stop()
      unfollow()
    }
  }, [client])
  useEffect(() => {
    if (session && !session.isOver) setWhy(undefined)
  }, [session])

  const discard = () => discardWritten(client)
  if (session)
    return (
      <>
        <Activity mode={session.isOver ? 'hidden' : 'visible'}>{children}</Activity>
        {session.isOver && <LoginScreen why={why} onDiscard={discard} />}
      </>
    )
  if (session === null) return <LoginScreen why={why} onDiscard={why && hasDrafts() ? discard : undefined} />
  if (error) return <ErrorState error={error} what="The server did not say who is logged in." onRetry={() => void refetch()} />
  return <div role="status" aria-label="Loading" className="min-h-screen" />
}
