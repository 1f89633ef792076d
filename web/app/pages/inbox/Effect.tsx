import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, unwrap, unwrapPage } from '~/api/client'
import { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { Diff } from '~/ui/Diff'
import { ErrorState } from '~/ui/ErrorState'
import { JsonView } from '~/ui/JsonView'
import { Skeleton } from '~/ui/Skeleton'
import { afterUpdate, describeEffect, readable } from './describe-effect'
import type { Approval } from './inbox-state'

const KINDS: Record<string, string> = { reads: 'It only reads.', writes: 'It writes to the project.', destroys: 'It can delete.', coordinates: 'It starts or asks others.' }

/** What the call would do: in words, as a change of what is there now, and its input in full. */
export function Effect({ item }: { item: Approval }) {
  const words = describeEffect(item.toolName, item.input)
  return (
    <div className="space-y-4">
      {words ? <p className="max-w-3xl break-words">{words}</p> : <ToolWords item={item} />}
      <GraphChange item={item} />
      <section>
        <h3 className="mb-1.5 text-xs font-medium text-text-2">Input of the call</h3>
        <JsonView value={item.input} open={3} />
      </section>
    </div>
  )
}

/** What the tool says about itself. */
function ToolWords({ item }: { item: Approval }) {
  const { allowed } = useScope('agents:read')
  const { data } = useQuery({ queryKey: [...keys.tools, 'all'], enabled: allowed, staleTime: 60_000, queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/tools', { signal })) })
  const tool = data?.items.find((one) => one.calledAs === item.toolName || one.qualifiedName === item.toolName || one.name === item.toolName)
  if (!tool) return <p className="text-text-2">Calls the tool {item.toolName} with the input below.</p>
  return (
    <p className="max-w-3xl">
      {tool.description} <span className="text-text-2">{tool.server ? `A tool of the server ${tool.server}. ` : ''}{KINDS[tool.effect] ?? ''}</span>
    </p>
  )
}

/** The object as it is now against what the call would leave. */
function GraphChange({ item }: { item: Approval }) {
  const { allowed } = useScope('graph:read')
  const input = (item.input ?? {}) as Record<string, unknown>
  const id = typeof input.id === 'string' ? input.id : ''
  const isWanted = ['entities_update', 'entities_delete'].includes(item.toolName) && id !== '' && item.status === 'pending'
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.objects, 'for-approval', id],
    enabled: isWanted && allowed,
    retry: false,
    queryFn: ({ signal }) => unwrap(api.GET('/api/graph/objects/{id}', { params: { path: { id } }, signal })),
  })
  if (!isWanted || !allowed) return null
  return (
    <section>
      <h3 className="mb-1.5 text-xs font-medium text-text-2">
        What would change{' '}
        {data && (
          <Link to="/graph/objects/$objectId" params={{ objectId: data.id }} className="text-accent-text hover:underline">
            {data.type}/{data.key ?? data.id}, version {data.version}
          </Link>
        )}
      </h3>
      {error instanceof ApiError && error.status === 404 ? (
        <p className="text-wait">There is no object {id} now: the call would fail.</p>
      ) : error ? (
        <ErrorState error={error} what="The object could not be loaded." onRetry={() => void refetch()} />
      ) : data ? (
        <Diff before={readable(data)} after={item.toolName === 'entities_delete' ? '' : readable(afterUpdate(data, input))} label="What would change" />
      ) : (
        <Skeleton className="h-24 w-full" />
      )}
    </section>
  )
}
