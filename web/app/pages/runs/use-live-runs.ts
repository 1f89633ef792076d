import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useCallback, useMemo, useState } from 'react'
import { useProjectEvents } from '~/api/events'
import { recentRunsQuery, type RunFilters, runsQuery } from '~/api/queries'
import type { ProjectEvent, Run, RunStatus } from '~/api/types'

const HEAD = 100
type Change = Pick<Run, 'status' | 'reason'>

/**
 * The runs of a filter, kept up to date without reading all pages again: events read the newest page again, and give
 * the rows of older pages their new status. A run that has left the filter leaves the list.
 */
export function useLiveRuns(filters: RunFilters) {
  const [changes, setChanges] = useState<ReadonlyMap<string, Change>>(new Map())
  const head = useQuery({ ...recentRunsQuery(filters, HEAD), placeholderData: keepPreviousData })
  const pages = useInfiniteQuery({ ...runsQuery(filters), staleTime: Infinity, placeholderData: keepPreviousData })

  useProjectEvents(
    useCallback((event: ProjectEvent) => {
      if (event.type !== 'run') return
      setChanges((known) => new Map(known).set(event.runId, { status: event.status as RunStatus, reason: event.reason as Run['reason'] }))
    }, []),
  )

  const rows = useMemo(() => {
    const found = new Map<string, Run>()
    for (const run of head.data?.items ?? []) found.set(run.id, run)
    for (const run of pages.data?.pages.flatMap((page) => page.items) ?? []) {
      if (found.has(run.id)) continue
      const change = changes.get(run.id)
      const current = change ? { ...run, ...change } : run
      if (!filters.status || filters.status.split(',').includes(current.status)) found.set(run.id, current)
    }
    return [...found.values()].sort((a, b) => b.createdAt.localeCompare(a.createdAt))
  }, [head.data, pages.data, changes, filters.status])

  const { fetchNextPage } = pages
  return {
    rows,
    error: head.error ?? pages.error,
    isLoading: head.isPending,
    hasMore: pages.hasNextPage,
    isLoadingMore: pages.isFetchingNextPage,
    onMore: useCallback(() => void fetchNextPage(), [fetchNextPage]),
    refetch: () => void Promise.all([head.refetch(), pages.refetch()]),
  }
}
