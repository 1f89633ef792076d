import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, unwrap, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import type { InboxItem, Schemas } from '~/api/types'
import { oneOf, type RawSearch } from '~/hooks/use-url-state'

export const STATUSES = ['decided', 'expired', 'withdrawn'] as const
export const KINDS = ['approval', 'question', 'discussion', 'escalation'] as const
export type InboxSearch = { status: 'pending' | (typeof STATUSES)[number]; kind: (typeof KINDS)[number] | undefined; item: string | undefined }

export const parseInbox = (raw: RawSearch): InboxSearch => ({ status: oneOf(STATUSES, raw.status) ?? 'pending', kind: oneOf(KINDS, raw.kind), item: raw.item || undefined })

export type Item = Schemas['InboxDetail']
export type Approval = Schemas['Approval']
export type Escalated = Schemas['EscalatedItem']
export const isCall = (item: Item): item is Approval => 'toolCallId' in item

export const inboxQuery = ({ status, kind }: Pick<InboxSearch, 'status' | 'kind'>) =>
  infiniteQueryOptions({
    queryKey: [...keys.inbox, 'list', status, kind ?? null],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/approvals', { params: { query: { status, kind, limit: 100, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })

export const itemQuery = (approvalId: string) =>
  queryOptions({
    queryKey: keys.inboxItem(approvalId),
    queryFn: ({ signal }) => unwrap(api.GET('/api/approvals/{approvalId}', { params: { path: { approvalId } }, signal })),
  })

/** What waits, the most urgent first: overdue, then by the time that is left, then the oldest. */
export function byUrgency(a: InboxItem, b: InboxItem): number {
  if (Boolean(a.overdue) !== Boolean(b.overdue)) return a.overdue ? -1 : 1
  if (a.expiresAt !== b.expiresAt) return (a.expiresAt ?? '9').localeCompare(b.expiresAt ?? '9')
  return a.createdAt.localeCompare(b.createdAt)
}
