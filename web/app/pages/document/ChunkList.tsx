import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import type { Schemas } from '~/api/types'
import { useRows } from '~/table/use-infinite'
import { Button } from '~/ui/Button'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { TypeDot } from '~/ui/TypeTag'
import { classes } from '~/util/classes'
import { formatCount, shortId } from '~/util/format'
import type { Found } from '../documents/use-extractions'

type Chunk = Schemas['Chunk']
type Props = { documentId: string; byChunk: Map<string, Map<string, Found>>; marked: string | undefined; isRead: boolean }

/** The passages of a document in order, each with what was found in it. */
export function ChunkList({ documentId, byChunk, marked, isRead }: Props) {
  const query = useInfiniteQuery({
    queryKey: [...keys.document(documentId), 'chunks'],
    staleTime: Infinity,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/documents/{id}/chunks', { params: { path: { id: documentId }, query: { limit: 50, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  const isThere = rows.some((chunk) => chunk.id === marked)
  useEffect(() => {
    if (isThere && marked) document.getElementById(`chunk-${marked}`)?.scrollIntoView({ block: 'center' })
  }, [isThere, marked])
  if (query.error) return <ErrorState error={query.error} what="The passages could not be loaded." onRetry={() => void query.refetch()} />
  if (query.isPending) return <SkeletonRows rows={6} />
  return (
    <>
      <ol className="divide-y divide-line">
        {rows.map((chunk) => (
          <ChunkRow key={chunk.id} chunk={chunk} found={[...(byChunk.get(chunk.id)?.values() ?? [])]} isMarked={chunk.id === marked} isRead={isRead} />
        ))}
      </ol>
      {hasMore && (
        <div className="border-t border-line p-2 text-center">
          <Button variant="ghost" size="sm" busy={isLoadingMore} onClick={onMore}>
            Load more passages
          </Button>
        </div>
      )}
    </>
  )
}

function ChunkRow({ chunk, found, isMarked, isRead }: { chunk: Chunk; found: Found[]; isMarked: boolean; isRead: boolean }) {
  return (
    <li id={`chunk-${chunk.id}`} className={classes('grid gap-x-6 gap-y-3 px-4 py-4 md:grid-cols-[minmax(0,1fr)_minmax(0,17rem)]', isMarked && 'bg-selected')}>
      <div className="min-w-0">
        <p className="mb-1 text-xs text-text-2">
          Passage {chunk.index + 1}
          {chunk.heading && <span className="font-medium text-text"> · {chunk.heading}</span>} · {formatCount(chunk.tokens)} tokens
        </p>
        <p className="max-w-prose leading-5 break-words whitespace-pre-wrap text-text">{chunk.text}</p>
      </div>
      <div>
        <p className="mb-1 text-xs text-text-2">{found.length > 0 ? `Found in it: ${found.length}` : isRead ? 'Nothing was found in it.' : 'No agent has read it.'}</p>
        <ul aria-label={`Found in passage ${chunk.index + 1}`} className="space-y-1">
          {found.map((object) => (
            <li key={object.id} className="rounded-md border border-line bg-surface px-2 py-1.5">
              <Link to="/graph/objects/$objectId" params={{ objectId: object.id }} className="flex items-center gap-1.5 font-medium hover:underline">
                <TypeDot type={object.type} />
                <span className="truncate">{object.title}</span>
              </Link>
              <p className="text-xs text-text-2">
                {object.type}
                {object.runId && (
                  <>
                    {' · found by '}
                    <Link to="/runs/$runId" params={{ runId: object.runId }} search={{ item: object.toolCallId }} className="underline">
                      run {shortId(object.runId)}
                    </Link>
                  </>
                )}
              </p>
            </li>
          ))}
        </ul>
      </div>
    </li>
  )
}
