import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleHelp, Gavel, Hand, InboxIcon, TriangleAlert } from 'lucide-react'
import { pendingQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { InboxItem } from '~/api/types'
import { Badge } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { capitalised, plainTitle } from '~/util/format'
import { CardLink } from './CardLink'

const ICONS: Partial<Record<InboxItem['kind'], typeof Hand>> = { approval: Hand, question: CircleHelp, discussion: Gavel, escalation: TriangleAlert }
const SHOWN = 6

/** Approvals, questions, discussions and escalations that wait for a person, the oldest first. */
export function NeedsYouCard() {
  const { allowed, reason } = useScope('approvals:decide')
  const { data, error, refetch } = useQuery({ ...pendingQuery, enabled: allowed })
  const items = [...(data?.items ?? [])].sort((a, b) => a.createdAt.localeCompare(b.createdAt))
  return (
    <Card title="Needs you" flush action={items.length > 0 && <CardLink to="/inbox">Open the inbox</CardLink>}>
      {!allowed ? (
        <EmptyState title="You cannot decide requests.">{reason}</EmptyState>
      ) : error ? (
        <ErrorState error={error} what="The inbox could not be loaded." onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonRows rows={3} />
      ) : items.length === 0 ? (
        <EmptyState icon={<InboxIcon aria-hidden size={18} />} title="Nothing waits for you.">
          Approvals, questions and workflows that need a person appear here at once.
        </EmptyState>
      ) : (
        <ul className="divide-y divide-line">
          {items.slice(0, SHOWN).map((item) => (
            <Row key={item.id} item={item} />
          ))}
        </ul>
      )}
    </Card>
  )
}

function Row({ item }: { item: InboxItem }) {
  const Icon = ICONS[item.kind] ?? Hand
  return (
    <li className="relative flex items-center gap-3 px-4 py-2.5 hover:bg-hover">
      <Icon aria-hidden size={16} className="shrink-0 text-wait" />
      <div className="min-w-0 flex-1">
        <Link to="/inbox" search={{ item: item.id }} className="block truncate font-medium after:absolute after:inset-0">
          {plainTitle(item)}
        </Link>
        <p className="truncate text-xs text-text-2">
          {capitalised(item.kind)}
          {item.agentName && ` · ${item.agentName}`}
          {item.toolName && item.kind !== 'question' && ` · ${item.toolName}`}
        </p>
      </div>
      {item.overdue && <Badge tone="wait">Overdue</Badge>}
      <RelativeTime at={item.createdAt} className="text-xs whitespace-nowrap text-text-2" />
    </li>
  )
}
