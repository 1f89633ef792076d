import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { FileText } from 'lucide-react'
import { useMemo } from 'react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Document } from '~/api/transfer'
import { type Column, DataTable } from '~/table/DataTable'
import { useRows } from '~/table/use-infinite'
import { Status } from '~/ui/Badge'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { formatCount } from '~/util/format'
import { type Attempt, failureOf } from './extraction-states'
import { formatBytes, kindOf } from './format-bytes'
import { UploadArea } from './UploadArea'
import { useExtractionStates } from './use-extractions'

function columnsFor(states: Map<string, Attempt>): Column<Document>[] {
  return [
    {
      key: 'title',
      head: 'Title',
      width: 'minmax(0, 3fr)',
      cell: (document) => (
        <Link to="/documents/$documentId" params={{ documentId: document.id }} className="font-medium hover:underline">
          {document.title}
        </Link>
      ),
    },
    { key: 'kind', head: 'Kind', width: '96px', from: 'sm', cell: (document) => <span className="text-text-2">{kindOf(document.mimeType)}</span> },
    { key: 'text', head: 'Text', width: '72px', align: 'end', from: 'sm', cell: (document) => formatBytes(document.textBytes) },
    { key: 'chunks', head: 'Passages', width: '64px', align: 'end', from: 'sm', cell: (document) => formatCount(document.chunkCount) },
    {
      key: 'state',
      head: 'Extraction',
      width: 'minmax(112px, 2fr)',
      cell: (document) => {
        const attempt = states.get(document.id)
        if (!attempt) return <span className="text-text-3">–</span>
        const failure = failureOf(attempt)?.replaceAll('`', '')
        if (!failure && 'run' in attempt) return <Status status={attempt.run.status} detail={attempt.run.reason} />
        const text = `${'run' in attempt ? attempt.run.agentName : attempt.refused.agentName} could not read it: ${failure}`
        return <span title={text} className="line-clamp-2 text-xs whitespace-normal text-fail">{text}</span>
      },
    },
    { key: 'created', head: 'Added', width: '76px', align: 'end', from: 'sm', cell: (document) => <RelativeTime at={document.createdAt} className="text-text-2" /> },
  ]
}

export function DocumentsPage() {
  const read = useScope('graph:read')
  const write = useScope('graph:write')
  const navigate = useNavigate()
  const states = useExtractionStates()
  const columns = useMemo(() => columnsFor(states), [states])
  const query = useInfiniteQuery({
    queryKey: [...keys.documents, 'list'],
    enabled: read.allowed,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/documents', { params: { query: { limit: 100, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  if (!read.allowed) {
    return (
      <>
        <PageHeader title="Documents" />
        <EmptyState title="You cannot see documents.">{read.reason}</EmptyState>
      </>
    )
  }
  return (
    <div className="flex h-[calc(100dvh-88px)] min-h-120 flex-col">
      <PageHeader title="Documents" description="Texts that agents read and cite. Each is split into passages and can be searched." />
      <UploadArea disabledReason={write.reason} />
      <div className="flex min-h-60 flex-1 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card">
        {query.error ? (
          <ErrorState error={query.error} what="The documents could not be loaded." onRetry={() => void query.refetch()} />
        ) : query.isPending ? (
          <SkeletonRows rows={8} />
        ) : rows.length === 0 ? (
          <EmptyState icon={<FileText aria-hidden size={18} />} title="There is no document yet.">
            Drop a file above. Agents that react to new documents, such as those of the product emergent.memory, start at once.
          </EmptyState>
        ) : (
          <DataTable
            label="Documents"
            columns={columns}
            rows={rows}
            rowKey={(document) => document.id}
            onOpen={(document) => void navigate({ to: '/documents/$documentId', params: { documentId: document.id } })}
            hasMore={hasMore}
            isLoadingMore={isLoadingMore}
            onMore={onMore}
          />
        )}
      </div>
    </div>
  )
}
