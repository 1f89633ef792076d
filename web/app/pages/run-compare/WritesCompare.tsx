import { useQueries } from '@tanstack/react-query'
import { Badge } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { Diff } from '~/ui/Diff'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { shortId } from '~/util/format'
import type { RunDetail } from '../run/run-queries'
import { factsOf, useWrites, type Version, type Write, writeQuery } from '../run/run-writes'

const LIMIT = 60

/** What each run left of each thing that it wrote. Things with a key are the same thing, also when both made it anew. */
function useChanges(run: RunDetail) {
  const { things, hasMore, isLoading, error } = useWrites(run, false, 0)
  const queries = useQueries({ queries: things.slice(0, LIMIT).flatMap(({ id, kind }) => (kind === 'document' ? [] : [writeQuery(run.id, kind, id, 0)])) })
  const writes = new Map<string, Write>()
  for (const { data } of queries) if (data) writes.set(nameOf(data.newest), data)
  return { writes, isLoading: isLoading || queries.some((query) => query.isPending), error: error ?? queries.find((query) => query.error)?.error, isCut: hasMore || things.length > LIMIT }
}

function nameOf(version: Version): string {
  if ('fromId' in version) return `${version.type} to ${shortId(version.toId)}`
  return `${version.type}/${version.key ?? shortId(version.id)}`
}

/** A relationship is compared without its ends, which may be new objects of each run. */
function left(write: Write | undefined): unknown {
  if (!write?.after) return ''
  const facts = factsOf(write.after)
  delete facts.from
  return facts
}

export function WritesCompare({ left: a, right: b, all }: { left: RunDetail; right: RunDetail; all: boolean }) {
  const one = useChanges(a)
  const two = useChanges(b)
  const names = [...new Set([...one.writes.keys(), ...two.writes.keys()])]
  const rows = names
    .map((name) => ({ name, one: one.writes.get(name), two: two.writes.get(name) }))
    .map((row) => ({ ...row, isSame: row.one?.how === row.two?.how && JSON.stringify(left(row.one)) === JSON.stringify(left(row.two)) }))
  const shown = rows.filter((row) => all || !row.isSame)
  const error = one.error ?? two.error
  return (
    <Card title="Changes to the graph" flush action={<span className="text-xs text-text-2">{rows.filter((row) => !row.isSame).length} of {rows.length} differ</span>}>
      {error ? (
        <ErrorState error={error} what="The changes could not be loaded." />
      ) : one.isLoading || two.isLoading ? (
        <SkeletonRows rows={3} />
      ) : shown.length === 0 ? (
        <EmptyState title={rows.length === 0 ? 'Neither run wrote to the graph.' : 'Both runs left the same.'} />
      ) : (
        <ul className="divide-y divide-line">
          {shown.map((row) => (
            <li key={row.name} className="px-4 py-3">
              <p className="mb-2 flex flex-wrap items-center gap-2">
                <strong className="font-medium wrap-anywhere">{row.name}</strong>
                {row.isSame ? <Badge>Same</Badge> : !row.one || !row.two ? <Badge tone="warn">Only {row.one ? 'left' : 'right'}</Badge> : <Badge tone="run">Differs</Badge>}
                <span className="text-xs text-text-2">{[row.one && `left: ${row.one.how}`, row.two && `right: ${row.two.how}`].filter(Boolean).join(', ')}</span>
              </p>
              {!row.isSame && <Diff before={left(row.one)} after={left(row.two)} label={`Differences of ${row.name}`} />}
            </li>
          ))}
        </ul>
      )}
      {(one.isCut || two.isCut) && <p className="px-4 py-3 text-text-2">Only the first {LIMIT} changes of each run are compared.</p>}
    </Card>
  )
}
