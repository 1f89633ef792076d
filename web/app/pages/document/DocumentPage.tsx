import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { RotateCcw, Trash2 } from 'lucide-react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Document } from '~/api/transfer'
import { type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
import { Status } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { JsonView } from '~/ui/JsonView'
import { KeyValue } from '~/ui/KeyValue'
import { LongTitle, PageHeader } from '~/ui/PageHeader'
import { ScrollList } from '~/ui/ScrollList'
import { SkeletonRows } from '~/ui/Skeleton'
import { Duration, RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { formatCount } from '~/util/format'
import { formatBytes, kindOf } from '../documents/format-bytes'
import { useExtraction, useReaders } from '../documents/use-extractions'
import { ChunkList } from './ChunkList'
import { DeleteDocumentDialog, ReadAgainDialog } from './DocumentDialogs'

const DIALOGS = ['delete', 'again'] as const
const parse = (raw: RawSearch) => ({ chunk: raw.chunk || undefined })

export function DocumentPage() {
  const { documentId = '' } = useParams({ strict: false })
  const read = useScope('graph:read')
  const query = useQuery({
    queryKey: [...keys.document(documentId), 'one'],
    enabled: read.allowed,
    retry: false,
    queryFn: ({ signal }) => unwrap(api.GET('/api/documents/{id}', { params: { path: { id: documentId } }, signal })),
  })
  if (query.data && !query.error) return <Loaded document={query.data} />
  return (
    <>
      <PageHeader title="Document" above={<Above />} />
      {!read.allowed ? (
        <EmptyState title="You cannot see documents.">{read.reason}</EmptyState>
      ) : query.error ? (
        <ErrorState error={query.error} what="The document could not be loaded." onRetry={() => void query.refetch()} />
      ) : (
        <SkeletonRows rows={8} />
      )}
    </>
  )
}

const Above = () => (
  <Link to="/documents" className="hover:underline">
    Documents
  </Link>
)

function Loaded({ document }: { document: Document }) {
  const [search] = useUrlState(parse)
  const write = useScope('graph:write')
  const invoke = useScope('agents:invoke')
  const readers = useReaders()
  const extraction = useExtraction(document.id)
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const noReader = readers.length === 0 ? 'No agent reads new documents. Install the product emergent.memory, or give an agent the trigger on_document_ingested.' : undefined
  const found = new Set([...extraction.byChunk.values()].flatMap((chunk) => [...chunk.keys()])).size
  return (
    <>
      <PageHeader
        title={document.title}
        above={<Above />}
        heading={<LongTitle text={document.title} />}
        actions={
          <>
            <Button icon={<RotateCcw aria-hidden size={14} />} disabledReason={noReader ?? invoke.reason} onClick={() => open('again')}>
              Read again…
            </Button>
            <Button icon={<Trash2 aria-hidden size={14} />} disabledReason={write.reason} onClick={() => open('delete')}>
              Delete…
            </Button>
          </>
        }
      />
      <div className="grid gap-4">
        <div className="grid items-start gap-4 md:grid-cols-2">
          <Card title="Document">
            <KeyValue
              items={[
                ['Kind', kindOf(document.mimeType)],
                ['Text', `${formatBytes(document.textBytes)} in ${formatCount(document.chunkCount)} ${document.chunkCount === 1 ? 'passage' : 'passages'}`],
                ['Added', <RelativeTime key="added" at={document.createdAt} />],
                ['Source', document.sourceUrl && <span key="source" className="wrap-anywhere">{document.sourceUrl}</span>],
                ['SHA-256', <code key="hash" className="font-mono text-xs wrap-anywhere">{document.contentHash}</code>],
                ['Metadata', Object.keys(document.metadata).length > 0 && <JsonView key="metadata" value={document.metadata} open={1} />],
              ]}
            />
          </Card>
          <Card title="Extraction" flush>
            {extraction.error ? (
              <ErrorState error={extraction.error} what="What was extracted could not be loaded." />
            ) : extraction.reason ? (
              <p className="p-4 text-text-2">{extraction.reason}</p>
            ) : extraction.isLoading ? (
              <SkeletonRows rows={2} />
            ) : extraction.runs.length + extraction.refused.length === 0 ? (
              <p className="p-4 text-text-2">No agent has read this document. {noReader ?? 'Read it again to let one do so.'}</p>
            ) : (
              <>
                <ScrollList label="Attempts to read it" className="max-h-48 divide-y divide-line">
                  {extraction.runs.map((run) => (
                    <li key={run.id} className="flex items-center gap-3 px-4 py-2">
                      <Link to="/runs/$runId" params={{ runId: run.id }} className="min-w-0 flex-1 truncate font-medium hover:underline">
                        {run.agentName}
                      </Link>
                      <Status status={run.status} detail={run.reason} />
                      <span className="text-xs whitespace-nowrap text-text-2">
                        <Duration milliseconds={run.durationMs} since={run.startedAt} />
                      </span>
                    </li>
                  ))}
                  {extraction.refused.map((firing) => (
                    <li key={firing.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2">
                      <span className="min-w-0 flex-1 truncate font-medium">{firing.agentName}</span>
                      <Status status="refused" />
                      <RelativeTime at={firing.createdAt} className="text-xs whitespace-nowrap text-text-2" />
                      <p className="w-full text-xs break-words text-text-2">It was not started: <WithCode text={firing.reason ?? 'no reason was given'} /></p>
                    </li>
                  ))}
                </ScrollList>
                <p className="border-t border-line px-4 py-2 text-xs text-text-2">
                  {formatCount(found)} {found === 1 ? 'object was' : 'objects were'} found in {formatCount(extraction.byChunk.size)} {extraction.byChunk.size === 1 ? 'passage' : 'passages'}.
                </p>
              </>
            )}
          </Card>
        </div>
        <Card title="Passages" flush>
          <ChunkList documentId={document.id} byChunk={extraction.byChunk} marked={search.chunk} isRead={extraction.runs.some((run) => run.status === 'completed')} />
        </Card>
      </div>
      {dialog === 'delete' && <DeleteDocumentDialog document={document} disabledReason={write.reason} onClose={close} />}
      {dialog === 'again' && <ReadAgainDialog document={document} readers={readers} disabledReason={noReader ?? invoke.reason} onClose={close} />}
    </>
  )
}
