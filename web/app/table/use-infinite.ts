import { type InfiniteData, type UseInfiniteQueryResult } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { Page } from '~/api/client'

/** The rows of all pages of an infinite query, and what a table needs to ask for more. */
export function useRows<T>(query: UseInfiniteQueryResult<InfiniteData<Page<T[]>>>) {
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data])
  return {
    rows,
    hasMore: query.hasNextPage,
    isLoadingMore: query.isFetchingNextPage,
    onMore: () => void query.fetchNextPage(),
  }
}
