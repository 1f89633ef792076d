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
import { Switch } from '~/ui/Field'
import { Skeleton, SkeletonRows } from '~/ui/Skeleton'
import { capitalised, shortId } from '~/util/format'
import type { RunDetail } from './run-queries'
import type { RunRecord } from './run-record'
import { factsOf, type Kind, useWrite, useWrites, type Version, type Write, type WrittenThing } from './run-writes'

const PAGE = 20
const TONES: Record<Write['how'], Tone> = { created: 'ok', changed: 'run', deleted: 'fail', restored: 'ok' }

/** What the run wrote to the graph, each thing as it was before and as the run left it. */
export function Writes({ run, record, version }: { run: RunDetail; record: RunRecord; version: number }) {
  const { allowed, reason } = useScope('graph:read')
  const [tree, setTree] = useState(false)
  const [shown, setShown] = useState(PAGE)
  // A write of a run that is at work may be followed by another one to the same thing.
  // oxlint-disable-next-line react/exhaustive-deps
  const round = useMemo(() => record.items.filter((item) => item.kind === 'call' && item.endedAt !== undefined).length, [record, version])
  const { things, hasMore, isLoadingMore, onMore, isLoading, error, refetch } = useWrites(run, tree, run.completedAt ? 0 : round)
  if (!allowed) return <EmptyState title="You cannot see the graph.">{reason}</EmptyState>
  return (
    <>
      {run.childRuns.length > 0 && (
        <div className="mb-3">
          <Switch label="Also what the runs below it wrote" checked={tree} onChange={setTree} />
        </div>
      )}
      {error ? (
        <ErrorState error={error} what="The changes could not be loaded." onRetry={() => void refetch()} />
      ) : isLoading ? (
        <SkeletonRows rows={4} />
      ) : things.length === 0 ? (
        <EmptyState title="The run wrote nothing to the graph.">Objects and relationships that it creates, changes or deletes are listed here.</EmptyState>
      ) : (
        <ul className="space-y-3">
          {things.slice(0, shown).map((thing) => (thing.kind === 'document' ? <DocumentItem key={thing.id} thing={thing} run={run} /> : <WriteItem key={`${thing.runId} ${thing.id}`} thing={thing} kind={thing.kind} run={run} round={run.completedAt ? 0 : round} />))}
          {(things.length > shown || hasMore) && (
            <li>
              <Button
                busy={isLoadingMore}
                onClick={() => {
                  setShown(shown + 5 * PAGE)
                  if (hasMore && shown + 5 * PAGE >= things.length) onMore()
                }}
              >
                Show more
              </Button>
            </li>
          )}
        </ul>
      )}
    </>
  )
}

/** The call that wrote a thing, with a link to it. */
function WrittenBy({ thing, run }: { thing: WrittenThing; run: RunDetail }) {
  if (!thing.toolCallId) return null
  return (
    <Link to="/runs/$runId" params={{ runId: thing.runId }} search={{ item: thing.toolCallId }} className="text-xs text-text-2 hover:underline">
      {thing.toolName ?? 'a call'}
      {thing.step !== undefined && `, step ${thing.step}`}
      {thing.runId !== run.id && ` of ${thing.agentName}`}
    </Link>
  )
}

function DocumentItem({ thing, run }: { thing: WrittenThing; run: RunDetail }) {
  return (
    <li className="flex flex-wrap items-center gap-2 rounded-lg border border-line bg-surface px-4 py-2.5">
      <Badge tone="ok">Created</Badge>
      <Link to="/documents/$documentId" params={{ documentId: thing.id }} className="font-medium text-accent-text hover:underline">
        {thing.name ?? `document ${shortId(thing.id)}`}
      </Link>
      <WrittenBy thing={thing} run={run} />
    </li>
  )
}

function WriteItem({ thing, kind, run, round }: { thing: WrittenThing; kind: Kind; run: RunDetail; round: number }) {
  const { data, error, refetch } = useWrite(thing.runId, kind, thing.id, round)
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
            <WrittenBy thing={thing} run={run} />
            <span className="ml-auto text-xs text-text-2">{standing(data)}</span>
          </div>
          <div className="px-4 pb-4">
            <Diff before={data.before ? factsOf(data.before) : ''} after={data.after ? factsOf(data.after) : ''} label={`Changes of ${kind} ${shortId(thing.id)}`} />
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
