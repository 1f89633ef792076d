import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useScope } from '~/api/session'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { runQuery } from './run-queries'
import { RunView } from './RunView'

const route = getRouteApi('/runs/$runId')

export function RunPage() {
  const { runId } = route.useParams()
  const { allowed, reason } = useScope('admin:read')
  const { data: run, error, refetch } = useQuery({ ...runQuery(runId), enabled: allowed })
  if (run) return <RunView key={run.id} run={run} />
  return (
    <>
      <PageHeader title="Run" />
      {!allowed ? <EmptyState title="You cannot see runs.">{reason}</EmptyState> : error ? <ErrorState error={error} what="The run could not be loaded." onRetry={() => void refetch()} /> : <SkeletonRows rows={10} />}
    </>
  )
}
