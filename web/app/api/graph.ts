// Queries of the knowledge graph that several pages use.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, unwrap, unwrapPage } from './client'
import { keys } from './keys'
import type { Schemas } from './types'

export type GraphObject = Schemas['Object']
export type Relationship = Schemas['Relationship']
export type Author = Schemas['Author']
export type Source = Schemas['Source']
export type TemplatePack = Schemas['TemplatePack']
export type SearchMode = Schemas['SearchMode']
export type Hit = Schemas['Hit']
export type TraversalNode = Schemas['Node']

export type ObjectFilters = { type?: string[]; label?: string[]; status?: string; asOf?: string; includeSystem?: boolean; deleted?: boolean }

const PAGE = 100

export const objectsQuery = (filters: ObjectFilters) =>
  infiniteQueryOptions({
    queryKey: [...keys.objects, 'list', filters],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/graph/objects', { params: { query: { ...filters, limit: PAGE, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
    placeholderData: keepPreviousData,
  })

export const objectQuery = (id: string, asOf?: string) =>
  queryOptions({
    queryKey: [...keys.objects, 'one', id, asOf ?? null],
    queryFn: ({ signal }) => unwrap(api.GET('/api/graph/objects/{id}', { params: { path: { id }, query: { asOf } }, signal })),
  })

export const historyQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: [...keys.objects, 'history', id],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/graph/objects/{id}/history', { params: { path: { id }, query: { limit: PAGE, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })

/** The most neighbours that one request reads. */
export const MAX_NEIGHBOURS = 1000

/** An object with its relationships and the objects at their other ends. */
export const neighboursQuery = (id: string, asOf?: string) =>
  queryOptions({
    queryKey: [...keys.objects, 'neighbours', id, asOf ?? null],
    queryFn: ({ signal }) => unwrap(api.POST('/api/graph/traverse', { body: { startIds: [id], maxDepth: 1, maxNodes: MAX_NEIGHBOURS, asOf }, signal })),
  })

export const searchQuery = (body: Schemas['SearchObjects']) =>
  queryOptions({
    queryKey: [...keys.objects, 'search', body],
    queryFn: ({ signal }) => unwrap(api.POST('/api/graph/search', { body, signal })),
    placeholderData: keepPreviousData,
  })

/** The packs that check the writes of this project. */
export const packsQuery = queryOptions({
  queryKey: ['packs'],
  queryFn: async ({ signal }) => (await unwrapPage(api.GET('/api/template-packs', { params: { query: { limit: 100 } }, signal }))).items.filter((pack) => pack.assigned),
})

/** How many objects and relationships of each type there are, the most frequent type first. */
export const typeCountsQuery = queryOptions({
  queryKey: [...keys.objects, 'types'],
  queryFn: ({ signal }) => unwrap(api.GET('/api/graph/types', { signal })),
})
