import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ErrorState } from './ErrorState'
import { SkeletonRows } from './Skeleton'

/** The content of a query, or that it is being loaded, or why it could not be. */
export function Loaded<T>({ query, what, rows, children }: { query: UseQueryResult<T>; what: string; rows?: number; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) return <ErrorState error={query.error} what={what} onRetry={() => void query.refetch()} />
  return <SkeletonRows rows={rows ?? 5} />
}
