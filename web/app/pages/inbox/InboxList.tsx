import { CircleHelp, Gavel, Hand, TriangleAlert } from 'lucide-react'
import { useEffect, useRef } from 'react'
import type { InboxItem } from '~/api/types'
import { Badge, Status } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { RelativeTime } from '~/ui/Values'
import { classes } from '~/util/classes'
import { capitalised } from '~/util/format'
import { shortTitle } from '~/util/short-text'

export const KIND_ICONS: Partial<Record<InboxItem['kind'], typeof Hand>> = { approval: Hand, question: CircleHelp, discussion: Gavel, escalation: TriangleAlert }

type Props = { items: InboxItem[]; selected: string | undefined; onSelect: (id: string) => void; hasMore: boolean; isLoadingMore: boolean; onMore: () => void }

export function InboxList({ items, selected, onSelect, hasMore, isLoadingMore, onMore }: Props) {
  const list = useRef<HTMLUListElement>(null)
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })
  }, [selected])
  return (
    <ul ref={list} aria-label="Requests" className="min-h-0 flex-1 divide-y divide-line overflow-auto">
      {items.map((item) => (
        <Row key={item.id} item={item} isSelected={item.id === selected} onSelect={onSelect} />
      ))}
      {hasMore && (
        <li className="p-3 text-center">
          <Button size="sm" busy={isLoadingMore} onClick={onMore}>
            Load more
          </Button>
        </li>
      )}
    </ul>
  )
}

function Row({ item, isSelected, onSelect }: { item: InboxItem; isSelected: boolean; onSelect: (id: string) => void }) {
  const Icon = KIND_ICONS[item.kind] ?? Hand
  return (
    <li>
      <button type="button" aria-current={isSelected ? 'true' : undefined} onClick={() => onSelect(item.id)} className={classes('flex w-full items-start gap-2.5 px-3 py-2.5 text-left -outline-offset-2', isSelected ? 'bg-selected' : 'hover:bg-hover')}>
        <Icon aria-hidden size={15} className="mt-0.5 shrink-0 text-wait" />
        <span className="min-w-0 flex-1">
          <span title={item.title} className="line-clamp-2 font-medium break-words">{shortTitle(item)}</span>
          <span className="mt-0.5 flex items-center gap-1.5 text-xs text-text-2">
            <span className="min-w-0 truncate">
              {capitalised(item.kind)}
              {item.agentName && ` · ${item.agentName}`}
            </span>
            <RelativeTime at={item.createdAt} className="ml-auto whitespace-nowrap" />
          </span>
          {(item.overdue || item.status !== 'pending' || item.expiresAt) && (
            <span className="mt-1 flex items-center gap-1.5 text-xs">
              {item.status !== 'pending' ? <Status status={item.status} /> : item.overdue ? <Badge tone="fail">Overdue</Badge> : <span className="text-wait">expires <RelativeTime at={item.expiresAt} /></span>}
            </span>
          )}
        </span>
      </button>
    </li>
  )
}
