import { useInfiniteQuery } from '@tanstack/react-query'
import { RotateCcw } from 'lucide-react'
import { type GraphObject, historyQuery } from '~/api/graph'
import { useUrlDialog } from '~/hooks/use-url-state'
import { useRows } from '~/table/use-infinite'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { Diff } from '~/ui/Diff'
import { DiffColumns } from '~/ui/DiffColumns'
import { ErrorState } from '~/ui/ErrorState'
import { Select, Switch } from '~/ui/Field'
import { JsonView } from '~/ui/JsonView'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { classes } from '~/util/classes'
import { formatAbsolute } from '~/util/format'
import { AuthorLine } from './AuthorLine'
import { RevertDialog } from './ChangeDialogs'
import { contentOf } from './shape'

const DIALOGS = ['revert'] as const

type Props = {
  /** The object as the page shows it: its newest version, or the one of an earlier moment. */
  object: GraphObject
  /** The version that is shown, the one it is compared with and how, and the moment of the page. */
  search: { v: number | undefined; with: number | undefined; side: 'true' | undefined; asOf: string | undefined }
  onChange: (change: { v?: string; with?: string; side?: string; asOf?: string; tab?: string }) => void
  disabledReason: string | undefined
}

/** All versions, who wrote each, and two of them side by side. */
export function HistoryPanel({ object, search, onChange, disabledReason }: Props) {
  const query = useInfiniteQuery(historyQuery(object.id))
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  if (query.error) return <ErrorState error={query.error} what="The history could not be loaded." onRetry={() => void query.refetch()} />
  if (query.isPending) return <SkeletonRows rows={4} />
  const newest = rows[0]
  if (!newest) return null
  const shown = rows.find((row) => row.version === search.v) ?? (search.asOf ? object : newest)
  const before = rows.find((row) => row.version === (search.with ?? shown.version - 1))
  const revertReason = disabledReason ?? (shown.version === newest.version ? 'This is the current version.' : shown.deletedAt ? 'This version is the deletion itself.' : undefined)
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,22rem)_minmax(0,1fr)]">
      <Card title="Versions" flush>
        <ol className="max-h-[65vh] divide-y divide-line overflow-auto">
          {rows.map((row) => (
            <li key={row.version} className={classes('relative px-4 py-2.5', row.version === shown.version ? 'bg-selected' : 'hover:bg-hover')}>
              <div className="flex items-center gap-2">
                <button type="button" aria-pressed={row.version === shown.version} onClick={() => onChange({ v: String(row.version), with: '' })} className="font-medium after:absolute after:inset-0">
                  Version {row.version}
                </button>
                {row === newest && !row.deletedAt && <Badge tone="ok">Current</Badge>}
                {search.asOf && row.version === object.version && <Badge tone="warn">Seen now</Badge>}
                {row.deletedAt && <Badge tone="fail">Deleted</Badge>}
                <RelativeTime at={row.deletedAt ?? row.updatedAt} className="ml-auto text-xs text-text-2" />
              </div>
              <div className="relative z-1 mt-0.5 w-fit text-xs text-text-2">
                <AuthorLine author={row.author} />
              </div>
            </li>
          ))}
        </ol>
        {hasMore && (
          <div className="border-t border-line p-2 text-center">
            <Button size="sm" variant="ghost" busy={isLoadingMore} onClick={onMore}>
              Load older versions
            </Button>
          </div>
        )}
      </Card>
      <Card
        title={
          <>
            Version {shown.version} <span className="font-normal text-text-2">{formatAbsolute(shown.deletedAt ?? shown.updatedAt)}</span>
          </>
        }
        action={
          <Button size="sm" icon={<RotateCcw aria-hidden size={14} />} disabledReason={revertReason} onClick={() => open('revert')}>
            Revert to it…
          </Button>
        }
      >
        <div className="mb-3 flex flex-wrap items-center gap-2 text-text-2">
          Compared with
          <Select
            aria-label="Compare with"
            className="h-7! w-auto! text-xs!"
            value={before ? String(before.version) : ''}
            onChange={(event) => onChange({ with: event.target.value })}
            options={[...(before ? [] : [{ value: '', label: 'nothing before it' }]), ...rows.filter((row) => row.version !== shown.version).map((row) => ({ value: String(row.version), label: `version ${row.version}` }))]}
          />
          {before && <Switch label={<span className="text-xs">Side by side</span>} checked={search.side === 'true'} onChange={(side) => onChange({ side: side ? 'true' : '' })} />}
          {!shown.deletedAt && (
            <Button size="sm" variant="ghost" onClick={() => onChange({ asOf: shown.updatedAt, tab: '', v: '', with: '' })}>
              See the graph as of then
            </Button>
          )}
        </div>
        {shown.reason && <p className="mb-3 rounded-md bg-sunken px-3 py-2 text-xs break-words text-text-2"><WithCode text={shown.reason} /></p>}
        {!before ? (
          <JsonView value={contentOf(shown)} />
        ) : search.side ? (
          <DiffColumns key={`${before.version} ${shown.version}`} before={contentOf(before)} after={contentOf(shown)} heads={[`Version ${before.version}`, `Version ${shown.version}`]} label={`Version ${before.version} and version ${shown.version}`} />
        ) : (
          <Diff key={`${before.version} ${shown.version}`} before={contentOf(before)} after={contentOf(shown)} label={`Version ${before.version} and version ${shown.version}`} />
        )}
      </Card>
      {dialog && <RevertDialog object={object} to={shown} disabledReason={revertReason} onClose={close} />}
    </div>
  )
}
