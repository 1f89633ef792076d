import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { onUnauthorized } from '~/api/client'
import { changeSession, sessionQuery } from '~/api/session'
import { ErrorState } from '~/ui/ErrorState'
import { LoginScreen } from './LoginScreen'

const ENDED = 'Your login has ended: its token was revoked or has expired, or you logged out elsewhere. Log in again to go on.'

/** Shows the pages to whoever is logged in, and the login to everybody else. The server decides who that is. */
export function SessionGate({ children }: { children: ReactNode }) {
  const client = useQueryClient()
  const { data: session, error, refetch } = useQuery(sessionQuery)
  const [why, setWhy] = useState<string>()

  useEffect(() => {
    const stop = onUnauthorized(() => {
      setWhy(ENDED)
      changeSession(client, null)
    })
    return () => void stop()
  }, [client])
  useEffect(() => {
    if (session) setWhy(undefined)
  }, [session])

  if (session) return children
  if (session === null) return <LoginScreen why={why} />
  if (error) return <ErrorState error={error} what="The server did not say who is logged in." onRetry={() => void refetch()} />
  return <div role="status" aria-label="Loading" className="min-h-screen" />
}
