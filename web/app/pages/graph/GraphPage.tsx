import { Suspense, lazy, useEffect } from 'react'
import { useScope } from '~/api/session'
import { useUrlState } from '~/hooks/use-url-state'
import { EmptyState } from '~/ui/EmptyState'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { noteFirstSteps } from '~/util/first-steps'
import { importUntilLoaded } from '~/util/load-parts'
import { parseGraphSearch } from './graph-search'
import { GraphListView } from './GraphListView'

const ExploreView = lazy(() => importUntilLoaded(() => import('./explore/ExploreView')))

export function GraphPage() {
  const [search, change] = useUrlState(parseGraphSearch)
  const { allowed, reason } = useScope('graph:read')
  useEffect(() => {
    if (allowed) noteFirstSteps({ looked: true })
  }, [allowed])
  if (!allowed) {
    return (
      <>
        <PageHeader title="Graph" />
        <EmptyState title="You cannot see the graph.">{reason}</EmptyState>
      </>
    )
  }
  if (search.view === 'explore') {
    return (
      <Suspense fallback={<SkeletonRows rows={8} />}>
        <ExploreView search={search} onChange={change} />
      </Suspense>
    )
  }
  return <GraphListView search={search} onChange={change} />
}
