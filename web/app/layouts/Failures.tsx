import { Link } from '@tanstack/react-router'
import { buttonClass } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { PageHeader } from '~/ui/PageHeader'

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

/** A page that failed to load or to be drawn. */
export function PageFailure({ error }: { error: unknown }) {
  return <ErrorState error={error} what="This page could not be shown." onRetry={() => location.reload()} />
}
