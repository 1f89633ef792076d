import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { ArchiveRestore, Share2 } from 'lucide-react'
import { useMemo, useState } from 'react'
import { type GraphObject, objectsQuery } from '~/api/graph'
import { useScope } from '~/api/session'
import { useKeptFocus } from '~/hooks/use-kept-focus'
import { type Column, DataTable } from '~/table/DataTable'
import { useRows } from '~/table/use-infinite'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { TypeTag } from '~/ui/TypeTag'
import { RelativeTime } from '~/ui/Values'
import { summaryOf, titleOf } from '~/util/objects'
import { RestoreDialog } from '../object/ChangeDialogs'
import type { GraphSearch } from './graph-search'

const columnsFor = (asOf: string | undefined): Column<GraphObject>[] => [
  {
    key: 'name',
    head: 'Name',
    width: 'minmax(0, 1.9fr)',
    cell: (object) => (
      <Link to="/graph/objects/$objectId" params={{ objectId: object.id }} search={{ asOf }} className="font-medium hover:underline">
        {titleOf(object)}
      </Link>
    ),
  },
  { key: 'type', head: 'Type', width: 'minmax(104px, 0.75fr)', cell: (object) => <TypeTag type={object.type} /> },
  { key: 'what', head: 'What', width: 'minmax(0, 2.2fr)', from: 'md', cell: (object) => <span className="text-text-2">{summaryOf(object)}</span> },
  { key: 'key', head: 'Key', width: 'minmax(120px, 0.8fr)', from: 'xl', cell: (object) => <code className="font-mono text-xs text-text-2">{object.key ?? '–'}</code> },
  { key: 'status', head: 'Status', width: '80px', from: 'xl', cell: (object) => <span className="text-text-2">{object.status ?? '–'}</span> },
  { key: 'version', head: 'Version', width: '56px', align: 'end', from: 'lg', cell: (object) => object.version },
  { key: 'updated', head: 'Changed', width: '76px', align: 'end', cell: (object) => <RelativeTime at={object.updatedAt} className="text-text-2" /> },
]

const deletedColumns = (restore: (object: GraphObject) => void, disabledReason: string | undefined): Column<GraphObject>[] => [
  ...columnsFor(undefined).filter(({ key }) => key !== 'updated'),
  { key: 'deleted', head: 'Deleted', width: '76px', align: 'end', from: 'sm', cell: (object) => <RelativeTime at={object.deletedAt ?? object.updatedAt} className="text-text-2" /> },
  {
    key: 'restore',
    head: <span className="sr-only">Restore</span>,
    width: '92px',
    align: 'end',
    cell: (object) => (
      <Button size="sm" icon={<ArchiveRestore aria-hidden size={13} />} disabledReason={disabledReason} aria-label={`Restore ${titleOf(object)}`} onClick={() => restore(object)}>
        Restore
      </Button>
    ),
  },
]

/** The list of a search without words. */
export const listQuery = ({ type, status, label, asOf, system, deleted }: GraphSearch) =>
  objectsQuery({ type: type ? [type] : undefined, status, label: label ? [label] : undefined, asOf, includeSystem: system === 'true', ...(deleted ? { deleted: true } : {}) })

type Props = { search: GraphSearch; isFiltered: boolean; onClear: () => void; onCreate: () => void }

export function ObjectList({ search, isFiltered, onClear, onCreate }: Props) {
  const navigate = useNavigate()
  const { asOf } = search
  const isDeleted = search.deleted === 'true'
  const [restored, setRestored] = useState<GraphObject>()
  const write = useScope('graph:write')
  const columns = useMemo(() => (isDeleted ? deletedColumns(setRestored, write.reason) : columnsFor(asOf)), [isDeleted, write.reason, asOf])
  const query = useInfiniteQuery(listQuery(search))
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  // A row that is restored leaves the list with the button that had the focus.
  const place = useKeptFocus<HTMLDivElement>()
  return (
    <div ref={place} tabIndex={-1} role="group" aria-label="Results" className="flex min-h-0 flex-1 flex-col -outline-offset-2">
      {query.error ? (
        <ErrorState error={query.error} what="The objects could not be loaded." onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <SkeletonRows rows={12} />
      ) : rows.length === 0 ? (
        <EmptyState
          icon={<Share2 aria-hidden size={18} />}
          title={isDeleted ? 'No deleted object matches.' : asOf ? 'There was no such object at that moment.' : isFiltered ? 'No object matches these filters.' : 'The graph is empty.'}
          action={isFiltered ? <Button onClick={onClear}>Clear the filters</Button> : <Button variant="primary" disabledReason={write.reason} onClick={onCreate}>Create an object</Button>}
        >
          {isFiltered ? 'Remove a filter, or choose another moment.' : 'Create an object, import a file, or add a document and let an agent read it.'}
        </EmptyState>
      ) : (
        <DataTable
          label={isDeleted ? 'Deleted objects' : 'Objects'}
          columns={columns}
          rows={rows}
          rowKey={(object) => object.id}
          onOpen={(object) => void navigate({ to: '/graph/objects/$objectId', params: { objectId: object.id }, search: { asOf } })}
          hasMore={hasMore}
          isLoadingMore={isLoadingMore}
          onMore={onMore}
        />
      )}
      {restored && <RestoreDialog object={restored} onClose={() => setRestored(undefined)} />}
    </div>
  )
}
