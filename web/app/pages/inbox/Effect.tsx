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

/**
 * The object as it is now against what the call would leave. Once it is decided, the object as it was at that moment,
 * against what was decided: the call itself may have changed it since.
 */
function GraphChange({ item }: { item: Approval }) {
  const { allowed } = useScope('graph:read')
  const { decision } = item
  const asOf = item.status === 'pending' ? undefined : (decision?.at ?? item.createdAt)
  const title = !asOf ? 'What would change' : decision?.decision === 'approve' ? 'What was approved' : 'What would have changed'
  const input = (decision?.editedInput ?? item.input ?? {}) as Record<string, unknown>
  const id = typeof input.id === 'string' ? input.id : ''
  const isWanted = ['entities_update', 'entities_delete'].includes(item.toolName) && id !== ''
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.objects, 'for-approval', id, asOf ?? null],
    enabled: isWanted && allowed,
    retry: false,
    queryFn: ({ signal }) => unwrap(api.GET('/api/graph/objects/{id}', { params: { path: { id }, query: { asOf } }, signal })),
  })
  if (!isWanted || !allowed) return null
  return (
    <section>
      <h3 className="mb-1.5 text-xs font-medium text-text-2">
        {title}{' '}
        {data && (
          <Link to="/graph/objects/$objectId" params={{ objectId: data.id }} search={{ asOf }} className="text-accent-text hover:underline">
            {data.type}/{data.key ?? data.id}, version {data.version}
          </Link>
        )}
      </h3>
      {error instanceof ApiError && error.status === 404 ? (
        <p className="text-warn">{asOf ? `There was no object ${id} at that moment.` : `There is no object ${id} now: the call would fail.`}</p>
      ) : error ? (
        <ErrorState error={error} what="The object could not be loaded." onRetry={() => void refetch()} />
      ) : data ? (
        <Diff before={readable(data)} after={item.toolName === 'entities_delete' ? '' : readable(afterUpdate(data, input))} label={title} />
      ) : (
        <Skeleton className="h-24 w-full" />
      )}
    </section>
  )
}
