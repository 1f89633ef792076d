import { Link } from '@tanstack/react-router'
import { FileText, MessageSquare } from 'lucide-react'
import type { Source } from '~/api/graph'
import { Card } from '~/ui/Card'

/** The passages that an object was found in. */
export function SourcesCard({ sources }: { sources: Source[] }) {
  return (
    <Card title="Sources" flush>
      {sources.length === 0 ? (
        <p className="p-4 text-text-2">No document or message names it. It was written directly.</p>
      ) : (
        <ul className="divide-y divide-line">
          {sources.map((source) => (
            <li key={source.chunkId} className="flex items-start gap-2 px-4 py-2.5">
              {source.conversationId ? <MessageSquare aria-hidden size={14} className="mt-1 shrink-0 text-text-3" /> : <FileText aria-hidden size={14} className="mt-1 shrink-0 text-text-3" />}
              <div className="min-w-0">
                <SourceLink source={source} />
                <p className="text-xs text-text-2">
                  Passage {source.index + 1}
                  {source.heading && ` · ${source.heading}`}
                  {source.documentDeleted && ' · the document was deleted'}
                </p>
              </div>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

function SourceLink({ source }: { source: Source }) {
  if (source.documentDeleted) return <span className="break-words">{source.title}</span>
  if (source.conversationId) {
    return (
      <Link to="/chat/$conversationId" params={{ conversationId: source.conversationId }} search={{ message: source.messageId ?? undefined }} className="break-words text-accent-text hover:underline">
        {source.title}
      </Link>
    )
  }
  return (
    <Link to="/documents/$documentId" params={{ documentId: source.documentId }} search={{ chunk: source.chunkId }} className="break-words text-accent-text hover:underline">
      {source.title}
    </Link>
  )
}
