import { Link, useRouter } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { ApiError } from '~/api/errors'
import { servedVersion } from '~/api/served-version'
import { buttonClass } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { PageHeader } from '~/ui/PageHeader'
import { reload } from '~/util/load-parts'

export function NotFound() {
  return (
    <>
      <PageHeader title="Page not found" />
      <EmptyState
        title="There is no page at this address."
        action={
          <Link to="/" className={buttonClass()}>
            Go to the overview
          </Link>
        }
      >
        The link may be old, or part of it may be missing.
      </EmptyState>
    </>
  )
}

/** Shown in place of every page: no part of any of them can be loaded. */
export function NoProject({ project, isBound }: { project: string; /** The token belongs to one project. */ isBound: boolean }) {
  return (
    <>
      <PageHeader title="Project not found" />
      <EmptyState
        title={`There is no project ${project} that your token can open.`}
        action={
          <Link to="/" search={{ project: undefined } as never} className={buttonClass('primary')}>
            {isBound ? 'Open the project of your token' : 'Open the project default'}
          </Link>
        }
      >
        It may have been renamed or deleted, or the link may be wrong.
      </EmptyState>
    </>
  )
}

const LOOK_AGAIN_MS = 5_000
const isUnreachable = (error: unknown) => error instanceof ApiError && error.status === 0

/** A page that failed to load or to be drawn. While the server is away, nothing is loaded again: the browser would show an error of its own. */
export function PageFailure({ error }: { error: unknown }) {
  const router = useRouter()
  const [isAway, setAway] = useState(isUnreachable(error))
  const again = async () => {
    const version = await servedVersion()
    if (version === 'unreachable') setAway(true)
    else if (isUnreachable(error)) await router.invalidate()
    else await reload()
  }
  useEffect(() => {
    if (!isAway) return
    const look = async () => {
      if ((await servedVersion()) === 'unreachable') return
      setAway(isUnreachable(error))
      await router.invalidate()
    }
    const timer = setInterval(() => void look(), LOOK_AGAIN_MS)
    return () => clearInterval(timer)
  }, [error, router, isAway])
  return isAway ? (
    <ErrorState error={ApiError.unreachable()} what="The server cannot be reached, so this page could not be loaded." onRetry={() => void again()} />
  ) : (
    <ErrorState error={error} what="This page could not be shown." onRetry={() => void again()} retry="Reload" />
  )
}
