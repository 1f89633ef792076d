import { useInfiniteQuery } from '@tanstack/react-query'
import { ArrowLeft, InboxIcon } from 'lucide-react'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useScope } from '~/api/session'
import type { InboxItem } from '~/api/types'
import { useMinWidths } from '~/hooks/use-min-width'
import { useShortcut } from '~/hooks/use-shortcut'
import { useUrlState } from '~/hooks/use-url-state'
import { useRows } from '~/table/use-infinite'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { Select } from '~/ui/Field'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { classes } from '~/util/classes'
import { capitalised, formatCount } from '~/util/format'
import { byUrgency, inboxQuery, KINDS, parseInbox, STATUSES } from './inbox-state'
import { InboxList } from './InboxList'
import { ItemDetail } from './ItemDetail'

const STATUS_OPTIONS = [{ value: '', label: 'Open' }, ...STATUSES.map((value) => ({ value, label: capitalised(value) }))]
const KIND_OPTIONS = [{ value: '', label: 'Any kind' }, ...KINDS.map((value) => ({ value, label: `${capitalised(value)}s` }))]

const nameOf = (item: InboxItem) => `${item.id} ${item.createdAt}`

export function InboxPage() {
  const [search, change] = useUrlState(parseInbox)
  const { allowed, reason } = useScope('approvals:decide')
  const isWide = useMinWidths().lg
  const query = useInfiniteQuery({ ...inboxQuery(search), enabled: allowed })
  const { rows, hasMore, isLoadingMore, onMore } = useRows(query)
  // What was decided here leaves the list at once. A workflow that needs a person again has another time.
  const [done, setDone] = useState<ReadonlySet<string>>(new Set())
  const items = useMemo(() => (search.status === 'pending' ? rows.filter((item) => !done.has(nameOf(item))).sort(byUrgency) : rows), [rows, search.status, done])
  const index = items.findIndex((item) => item.id === search.item)

  const select = useCallback((id: string | undefined, push = false) => change({ item: id ?? '' }, { push }), [change])
  const move = (step: number) => {
    const next = items[index < 0 ? 0 : Math.max(0, Math.min(items.length - 1, index + step))]
    if (next) select(next.id)
  }
  useShortcut('j', () => move(1), items.length > 0)
  useShortcut('k', () => move(-1), items.length > 0)

  // Beside the list there is always something to read.
  const first = items[0]?.id
  useEffect(() => {
    if (isWide && !search.item && first) select(first)
  }, [first, isWide, search.item, select])

  // The answer to a decision may come when another request is shown, or another page.
  const shown = useRef<string>(undefined)
  useLayoutEffect(() => {
    shown.current = search.item
    return () => {
      shown.current = undefined
    }
  }, [search.item])
  /** Goes on with the request after the one that was decided. The focus stays here, although its button is gone. */
  const detail = useRef<HTMLElement>(null)
  const goOn = useCallback(
    (id: string) => {
      if (search.status !== 'pending') return
      const at = items.findIndex((item) => item.id === id)
      const [decided, next] = [items[at], items[at + 1] ?? items[at - 1]]
      if (decided) setDone((known) => new Set(known).add(nameOf(decided)))
      if (shown.current !== id) return
      select(isWide ? next?.id : undefined)
      const place = isWide ? detail.current : document.querySelector<HTMLElement>('main h1')
      place?.focus({ preventScroll: true })
    },
    [isWide, items, search.status, select],
  )

  if (!allowed) {
    return (
      <>
        <PageHeader title="Inbox" />
        <EmptyState title="You cannot decide requests.">{reason}</EmptyState>
      </>
    )
  }
  const showsItem = search.item !== undefined
  return (
    <div className="flex min-h-96 flex-col lg:h-[calc(100dvh-88px)]">
      <div className={classes(showsItem && 'max-lg:sr-only')}>
        <PageHeader title="Inbox" description={<>What agents and workflows cannot do without a person. <span className="max-lg:hidden">j and k move.</span></>} />
      </div>
      <div className="flex min-h-0 flex-1 rounded-lg lg:overflow-hidden border border-line bg-surface shadow-card">
        <section aria-label="Requests" className={classes('flex min-h-0 w-full shrink-0 flex-col lg:w-88 lg:border-r lg:border-line', showsItem && 'max-lg:hidden')}>
          <div role="search" aria-label="Filter the requests" className="flex items-center gap-1.5 border-b border-line px-3 py-2">
            <Select aria-label="Status" value={search.status === 'pending' ? '' : search.status} options={STATUS_OPTIONS} onChange={(event) => change({ status: event.target.value, item: '' })} className="h-7! w-auto! text-xs!" />
            <Select aria-label="Kind" value={search.kind ?? ''} options={KIND_OPTIONS} onChange={(event) => change({ kind: event.target.value, item: '' })} className="h-7! w-auto! text-xs!" />
            <span className="ml-auto text-xs text-text-2">
              {formatCount(items.length)}
              {hasMore && '+'}
            </span>
          </div>
          {query.error ? (
            <ErrorState error={query.error} what="The inbox could not be loaded." onRetry={() => void query.refetch()} />
          ) : query.isPending ? (
            <SkeletonRows rows={6} />
          ) : items.length === 0 ? (
            <EmptyState icon={<InboxIcon aria-hidden size={18} />} title={search.status === 'pending' && !search.kind ? 'Nothing waits for you.' : 'There is nothing of this kind.'}>
              {search.status === 'pending' && !search.kind ? 'Approvals, questions and workflows that need a person appear here at once.' : 'Choose another status or kind.'}
            </EmptyState>
          ) : (
            <InboxList items={items} selected={search.item} onSelect={(id) => select(id, !isWide)} hasMore={hasMore} isLoadingMore={isLoadingMore} onMore={onMore} />
          )}
        </section>
        <section ref={detail} tabIndex={-1} aria-label="Request" className={classes('min-h-0 min-w-0 flex-1 outline-none lg:overflow-auto', !showsItem && 'max-lg:hidden')}>
          <div className="border-b border-line p-2 lg:hidden">
            <Button variant="ghost" size="sm" icon={<ArrowLeft aria-hidden size={14} />} onClick={() => select(undefined)}>
              All requests
            </Button>
          </div>
          {search.item ? <ItemDetail key={search.item} id={search.item} onDecided={goOn} /> : <EmptyState title="No request is selected.">Choose one of the list to see what it is about.</EmptyState>}
        </section>
      </div>
    </div>
  )
}
