import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { useDebounced } from '~/hooks/use-debounced'
import { useRows } from '~/table/use-infinite'
import { Button, buttonClass } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { Input } from '~/ui/Field'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { classes } from '~/util/classes'
import { type Conversation, conversationsQuery } from './chat-queries'
import { ConversationMenu } from './ConversationMenu'

/** The conversations of the project, the newest first. `q` and `onSearch` hold the search elsewhere, such as in the URL. */
export function ConversationList({ current, q, onSearch }: { current?: string; q?: string | undefined; onSearch?: (q: string) => void }) {
  const [typed, setTyped] = useState(q ?? '')
  const wanted = useDebounced(typed.trim(), 250)
  const query = useInfiniteQuery(conversationsQuery(wanted || undefined))
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  return (
    <>
      <div className="flex items-center gap-1.5 border-b border-line p-2">
        <Input
          type="search"
          aria-label="Search the conversations"
          placeholder="Search"
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value)
            onSearch?.(event.target.value.trim())
          }}
          className="h-7! text-xs!"
        />
        {current && (
          <Link to="/chat" search={{}} aria-label="New conversation" title="New conversation" className={classes(buttonClass('ghost', 'sm'), 'w-7 px-0!')}>
            <Plus aria-hidden size={16} />
          </Link>
        )}
      </div>
      {query.error ? (
        <ErrorState error={query.error} what="The conversations could not be loaded." onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <SkeletonRows rows={6} />
      ) : rows.length === 0 ? (
        <EmptyState title={wanted ? 'No conversation matches.' : 'No conversation yet.'}>{!wanted && 'Write a message to begin one.'}</EmptyState>
      ) : (
        <ul className="min-h-0 flex-1 divide-y divide-line overflow-auto">
          {rows.map((conversation) => (
            <Row key={conversation.id} conversation={conversation} isCurrent={conversation.id === current} />
          ))}
          {hasMore && (
            <li className="p-2 text-center">
              <Button size="sm" busy={isLoadingMore} onClick={onMore}>
                Show more
              </Button>
            </li>
          )}
        </ul>
      )}
    </>
  )
}

const WAITS: Record<string, string> = { approval: 'Waits for an approval', question: 'Waits for an answer' }

function Row({ conversation, isCurrent }: { conversation: Conversation; isCurrent: boolean }) {
  const waits = conversation.waitingKind ? (WAITS[conversation.waitingKind] ?? 'Waits') : undefined
  return (
    <li className={classes('relative flex items-center gap-1 py-2 pr-1.5 pl-3', isCurrent ? 'bg-selected' : 'hover:bg-hover')}>
      <div className="min-w-0 flex-1">
        <Link to="/chat/$conversationId" params={{ conversationId: conversation.id }} search={{}} aria-current={isCurrent ? 'page' : undefined} className="line-clamp-2 font-medium break-words after:absolute after:inset-0">
          {conversation.title || 'New conversation'}
        </Link>
        <p className="flex items-center gap-1.5 truncate text-xs text-text-2">
          {conversation.status === 'answering' && <span aria-hidden className={classes('size-1.5 shrink-0 rounded-full', waits ? 'bg-wait-fill' : 'animate-breathe bg-run-fill')} />}
          <span className={classes('truncate', waits && 'font-medium text-wait')}>{waits ?? (conversation.status === 'answering' ? 'Answering' : (conversation.agentName ?? 'Search'))}</span>
          <span aria-hidden>·</span>
          <RelativeTime at={conversation.updatedAt} className="shrink-0" />
        </p>
      </div>
      <span className="relative z-10">
        <ConversationMenu conversation={conversation} {...(isCurrent && { leaveTo: '/chat' as const })} />
      </span>
    </li>
  )
}
