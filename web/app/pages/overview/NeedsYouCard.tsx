import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleHelp, Gavel, Hand, InboxIcon, TriangleAlert } from 'lucide-react'
import { pendingQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { InboxItem } from '~/api/types'
import { useKeptFocus } from '~/hooks/use-kept-focus'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { capitalised } from '~/util/format'
import { lazyPart } from '~/util/lazy-part'
import { shortTitle } from '~/util/short-text'
import { CardLink } from './CardLink'

const ICONS: Partial<Record<InboxItem['kind'], typeof Hand>> = { approval: Hand, question: CircleHelp, discussion: Gavel, escalation: TriangleAlert }
const SHOWN = 6

const DecideDialog = lazyPart(() => import('./DecideDialog').then((module) => module.default))
const MODES = ['approve', 'deny'] as const

/** Approvals, questions, discussions and escalations that wait for a person, the oldest first. */
export function NeedsYouCard() {
  const { allowed, reason } = useScope('approvals:decide')
  const { data, error, refetch } = useQuery({ ...pendingQuery, enabled: allowed })
  // The answer to a decision may come when the dialog of another request is open, which stays.
  const { dialog: mode, of, open, close } = useUrlDialog(MODES)
  const items = [...(data?.items ?? [])].sort((a, b) => a.createdAt.localeCompare(b.createdAt))
  // A request that is decided takes its buttons with it.
  const place = useKeptFocus<HTMLElement>()
  return (
    <Card ref={place} title="Needs you" flush action={items.length > 0 && <CardLink to="/inbox">Open the inbox</CardLink>}>
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
            <Row key={item.id} item={item} onDecide={(chosen) => open(chosen, item.id)} />
          ))}
        </ul>
      )}
      {mode && of && allowed && <DecideDialog key={of} id={of} mode={mode} onClose={close} />}
    </Card>
  )
}

function Row({ item, onDecide }: { item: InboxItem; onDecide: (mode: (typeof MODES)[number]) => void }) {
  const Icon = ICONS[item.kind] ?? Hand
  return (
    <li className="relative flex items-center gap-3 px-4 py-2.5 hover:bg-hover max-sm:flex-wrap">
      <Icon aria-hidden size={16} className="shrink-0 text-wait" />
      <div className="min-w-0 flex-1">
        <Link to="/inbox" search={{ item: item.id }} title={item.title} className="block truncate font-medium after:absolute after:inset-0">
          {shortTitle(item)}
        </Link>
        <p className="truncate text-xs text-text-2">
          {capitalised(item.kind)}
          {item.agentName && ` · ${item.agentName}`}
          {item.toolName && item.kind !== 'question' && ` · ${item.toolName}`}
        </p>
      </div>
      {item.kind === 'approval' && (
        // Above the link that fills the row.
        <div className="relative z-1 flex gap-1.5 max-sm:order-last max-sm:w-full max-sm:pl-7">
          <Button size="sm" aria-haspopup="dialog" aria-label={`Approve… ${shortTitle(item)}`} onClick={() => onDecide('approve')}>
            Approve…
          </Button>
          <Button size="sm" aria-haspopup="dialog" aria-label={`Deny… ${shortTitle(item)}`} onClick={() => onDecide('deny')}>
            Deny…
          </Button>
        </div>
      )}
      {item.overdue && <Badge tone="wait">Overdue</Badge>}
      <RelativeTime at={item.createdAt} className="text-xs whitespace-nowrap text-text-2" />
    </li>
  )
}
