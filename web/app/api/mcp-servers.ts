// The queries of external servers. Addresses of pages name a server, as the API does.
import { queryOptions } from '@tanstack/react-query'
import { api, unwrap, unwrapAll } from './client'
import { keys } from './keys'

const readServers = (signal: AbortSignal) => unwrapAll((cursor) => api.GET('/api/admin/mcp-servers', { params: { query: { limit: 100, cursor } }, signal }))

export const mcpServersQuery = queryOptions({
  queryKey: [...keys.mcpServers, 'list'],
  queryFn: ({ signal }) => readServers(signal),
})

export const mcpServerQuery = (name: string) =>
  queryOptions({
    queryKey: keys.mcpServer(name),
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/mcp-servers/{id}', { params: { path: { id: name } }, signal })),
  })

export const mcpServerToolsQuery = (server: { id: string; name: string }) =>
  queryOptions({
    queryKey: [...keys.mcpServer(server.name), 'tools'],
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/mcp-servers/{id}/tools', { params: { path: { id: server.id } }, signal })),
  })
