// Queries that several pages use. A page that reads something of its own defines the query beside itself.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, unwrap, unwrapAll, unwrapPage } from './client'
import { keys } from './keys'
import type { paths } from './schema'

export type RunFilters = Omit<NonNullable<paths['/api/admin/runs']['get']['parameters']['query']>, 'cursor' | 'limit'>

const PAGE = 100

export const runsQuery = (filters: RunFilters = {}) =>
  infiniteQueryOptions({
    queryKey: [...keys.runs, 'list', filters],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      unwrapPage(api.GET('/api/admin/runs', { params: { query: { ...filters, limit: PAGE, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })

export const recentRunsQuery = (filters: RunFilters, limit: number) =>
  queryOptions({
    queryKey: [...keys.runs, 'recent', filters, limit],
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { ...filters, limit } }, signal })),
  })

export const runStatsQuery = queryOptions({
  queryKey: keys.runStats,
  queryFn: ({ signal }) => unwrap(api.GET('/api/admin/runs/stats', { signal })),
})

export const pendingQuery = queryOptions({
  queryKey: [...keys.inbox, 'pending'],
  queryFn: ({ signal }) =>
    unwrapPage(api.GET('/api/approvals', { params: { query: { status: 'pending', limit: 100 } }, signal })),
})

export const workflowsQuery = (status?: 'planning' | 'running' | 'completed' | 'failed' | 'escalated' | 'cancelled', limit = 50) =>
  queryOptions({
    queryKey: [...keys.workflows, 'recent', status ?? null, limit],
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/coordination/workflows', { params: { query: { status, limit } }, signal })),
  })

export const budgetsQuery = queryOptions({
  queryKey: keys.budgets,
  queryFn: ({ signal }) => unwrap(api.GET('/api/coordination/budgets', { signal })),
})

export const agentsQuery = queryOptions({
  queryKey: [...keys.agents, 'list'],
  queryFn: ({ signal }) => unwrapAll((cursor) => api.GET('/api/admin/agents', { params: { query: { limit: PAGE, cursor } }, signal })),
})

export const secretsQuery = queryOptions({
  queryKey: keys.secrets,
  queryFn: ({ signal }) => unwrap(api.GET('/api/admin/secrets', { signal })),
})

export const projectsQuery = queryOptions({
  queryKey: keys.projects,
  queryFn: ({ signal }) => unwrapPage(api.GET('/api/projects', { params: { query: { limit: 100 } }, signal })),
})

export const toolsQuery = queryOptions({
  queryKey: [...keys.tools, 'list'],
  queryFn: ({ signal }) => unwrap(api.GET('/api/admin/tools', { signal })),
})

/** The state of the server. Providers are not asked, because that takes time and reaches out. */
export const diagnosticsQuery = queryOptions({
  queryKey: keys.diagnostics,
  queryFn: ({ signal }) => unwrap(api.GET('/api/admin/diagnostics', { params: { query: { probe: false } }, signal })),
})
