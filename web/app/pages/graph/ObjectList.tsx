import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Share2 } from 'lucide-react'
import { type GraphObject, objectsQuery } from '~/api/graph'
import { type Column, DataTable } from '~/table/DataTable'
import { useRows } from '~/table/use-infinite'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { TypeTag } from '~/ui/TypeTag'
import { RelativeTime } from '~/ui/Values'
import { summaryOf, titleOf } from '~/util/objects'
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
  { key: 'type', head: 'Type', width: 'minmax(96px, 0.6fr)', cell: (object) => <TypeTag type={object.type} /> },
  { key: 'what', head: 'What', width: 'minmax(0, 2.2fr)', from: 'md', cell: (object) => <span className="text-text-2">{summaryOf(object)}</span> },
  { key: 'key', head: 'Key', width: 'minmax(0, 0.8fr)', from: 'xl', cell: (object) => <code className="font-mono text-xs text-text-2">{object.key ?? '–'}</code> },
  { key: 'status', head: 'Status', width: '80px', from: 'xl', cell: (object) => <span className="text-text-2">{object.status ?? '–'}</span> },
  { key: 'version', head: 'Version', width: '56px', align: 'end', from: 'lg', cell: (object) => object.version },
  { key: 'updated', head: 'Changed', width: '76px', align: 'end', cell: (object) => <RelativeTime at={object.updatedAt} className="text-text-2" /> },
]

export function ObjectList({ search, isFiltered, onClear, onCreate }: { search: GraphSearch; isFiltered: boolean; onClear: () => void; onCreate: () => void }) {
  const navigate = useNavigate()
  const { type, status, label, asOf, system } = search
  const query = useInfiniteQuery(objectsQuery({ type: type ? [type] : undefined, status, label: label ? [label] : undefined, asOf, includeSystem: system === 'true' }))
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  if (query.error) return <ErrorState error={query.error} what="The objects could not be loaded." onRetry={() => void query.refetch()} />
  if (query.isPending) return <SkeletonRows rows={12} />
  if (rows.length === 0) {
    return (
      <EmptyState
        icon={<Share2 aria-hidden size={18} />}
        title={asOf ? 'There was no such object at that moment.' : isFiltered ? 'No object matches these filters.' : 'The graph is empty.'}
        action={isFiltered ? <Button onClick={onClear}>Clear the filters</Button> : <Button variant="primary" onClick={onCreate}>Create an object</Button>}
      >
        {isFiltered ? 'Remove a filter, or choose another moment.' : 'Create an object, import a file, or add a document and let an agent read it.'}
      </EmptyState>
    )
  }
  return (
    <DataTable
      label="Objects"
      columns={columnsFor(asOf)}
      rows={rows}
      rowKey={(object) => object.id}
      onOpen={(object) => void navigate({ to: '/graph/objects/$objectId', params: { objectId: object.id }, search: { asOf } })}
      hasMore={hasMore}
      isLoadingMore={isLoadingMore}
      onMore={onMore}
    />
  )
}
