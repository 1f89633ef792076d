import { QueryClient } from '@tanstack/react-query'
import { ApiError } from './errors'

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // The event stream says when something changed, so what was read stays valid for a while.
      staleTime: 30_000,
      retry: (count, error) => count < 2 && error instanceof ApiError && error.isTemporary,
      refetchOnWindowFocus: false,
    },
    mutations: { retry: false },
  },
})
