import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { Badge, type Tone } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Diff } from '~/ui/Diff'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { Skeleton, SkeletonRows } from '~/ui/Skeleton'
import { capitalised, shortId } from '~/util/format'
import type { RunDetail } from './run-queries'
import type { RunRecord } from './run-record'
import { factsOf, type Kind, useWrite, useWrittenIds, type Version, type Write } from './run-writes'

const PAGE = 20
const TONES: Record<Write['how'], Tone> = { created: 'ok', changed: 'run', deleted: 'fail', restored: 'ok' }

/** What the run wrote to the graph, each thing as it was before and as the run left it. */
export function Writes({ run, record, version }: { run: RunDetail; record: RunRecord; version: number }) {
  const { allowed, reason } = useScope('graph:read')
  const { ids, documents, isLoading, error, refetch } = useWrittenIds(run, record)
  const [shown, setShown] = useState(PAGE)
  // A write of a run that is at work may be followed by another one to the same thing.
  // oxlint-disable-next-line react/exhaustive-deps
  const round = useMemo(() => record.items.filter((item) => item.kind === 'call' && item.endedAt !== undefined).length, [record, version])
  if (!allowed) return <EmptyState title="You cannot see the graph.">{reason}</EmptyState>
  if (error && ids.length === 0) return <ErrorState error={error} what="The changes could not be loaded." onRetry={() => void refetch()} />
  if (isLoading && ids.length === 0) return <SkeletonRows rows={4} />
  if (ids.length === 0 && documents.length === 0) return <EmptyState title="The run wrote nothing to the graph.">Objects and relationships that it creates, changes or deletes are listed here.</EmptyState>
  return (
    <ul className="space-y-3">
      {ids.slice(0, shown).map(([id, kind]) => (
        <WriteItem key={id} runId={run.id} id={id} kind={kind} round={run.completedAt ? 0 : round} />
      ))}
      {documents.map((id) => (
        <li key={id} className="rounded-lg border border-line bg-surface px-4 py-2.5">
          <Badge tone="ok">Created</Badge> <Link to="/documents/$documentId" params={{ documentId: id }} className="ml-1 font-medium text-accent-text hover:underline">document {shortId(id)}</Link>
        </li>
      ))}
      {ids.length > shown && (
        <li>
          <Button onClick={() => setShown(shown + 5 * PAGE)}>Show more of {ids.length}</Button>
        </li>
      )}
    </ul>
  )
}

function WriteItem({ runId, id, kind, round }: { runId: string; id: string; kind: Kind; round: number }) {
  const { data, error, refetch } = useWrite(runId, kind, id, round)
  if (data === null) return null
  return (
    <li className="rounded-lg border border-line bg-surface shadow-card">
      {error ? (
        <ErrorState error={error} what="The history could not be loaded." onRetry={() => void refetch()} />
      ) : !data ? (
        <div className="p-4">
          <Skeleton />
        </div>
      ) : (
        <>
          <div className="flex flex-wrap items-center gap-2 px-4 py-2.5">
            <Badge tone={TONES[data.how]}>{capitalised(data.how)}</Badge>
            <NameOf version={data.newest} kind={kind} />
            <span className="ml-auto text-xs text-text-2">{standing(data)}</span>
          </div>
          <div className="px-4 pb-4">
            <Diff before={data.before ? factsOf(data.before) : ''} after={data.after ? factsOf(data.after) : ''} label={`Changes of ${kind} ${shortId(id)}`} />
          </div>
        </>
      )}
    </li>
  )
}

/** Whether what the run wrote still stands. */
function standing(write: Write): string {
  const own = write.after?.version ?? (write.before?.version ?? 0) + 1
  if (write.newest.version <= own) return `version ${own}`
  return write.newest.reason?.includes('revert') ? 'reverted since' : `changed since, version ${write.newest.version} now`
}

function NameOf({ version, kind }: { version: Version; kind: Kind }) {
  if (kind === 'object' || !('fromId' in version)) {
    return (
      <Link to="/graph/objects/$objectId" params={{ objectId: version.id }} className="min-w-0 truncate font-medium text-accent-text hover:underline">
        {version.type}/{('key' in version && version.key) || shortId(version.id)}
      </Link>
    )
  }
  return (
    <span className="flex min-w-0 flex-wrap items-center gap-1.5">
      <End id={version.fromId} /> <span className="text-text-2">{version.type}</span> <End id={version.toId} />
    </span>
  )
}

/** An end of a relationship by its name. */
function End({ id }: { id: string }) {
  const { data } = useQuery({ queryKey: [...keys.object(id), 'name'], staleTime: 60_000, retry: false, queryFn: ({ signal }) => unwrap(api.GET('/api/graph/objects/{id}', { params: { path: { id } }, signal })) })
  return (
    <Link to="/graph/objects/$objectId" params={{ objectId: id }} className="font-medium text-accent-text hover:underline">
      {data ? `${data.type}/${data.key ?? shortId(id)}` : shortId(id)}
    </Link>
  )
}
