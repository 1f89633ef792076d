// The queries of external servers. Addresses of pages name a server, and the API takes its id only.
import { queryOptions } from '@tanstack/react-query'
import { api, unwrap, unwrapAll } from './client'
import { ApiError } from './errors'
import { keys } from './keys'

const readServers = (signal: AbortSignal) => unwrapAll((cursor) => api.GET('/api/admin/mcp-servers', { params: { query: { limit: 100, cursor } }, signal }))

export const mcpServersQuery = queryOptions({
  queryKey: [...keys.mcpServers, 'list'],
  queryFn: ({ signal }) => readServers(signal),
})

export const mcpServerQuery = (name: string) =>
  queryOptions({
    queryKey: keys.mcpServer(name),
    queryFn: async ({ signal }) => {
      const found = (await readServers(signal)).items.find((server) => server.name === name)
      if (!found) throw new ApiError(404, 'not_found', `there is no server “${name}”`)
      return found
    },
  })

export const mcpServerToolsQuery = (server: { id: string; name: string }) =>
  queryOptions({
    queryKey: [...keys.mcpServer(server.name), 'tools'],
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/mcp-servers/{id}/tools', { params: { path: { id: server.id } }, signal })),
  })
