import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { ScrollText } from 'lucide-react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { FilterBar, FilterSelect, FilterText } from '~/table/FilterBar'
import { FilterPeriod } from '~/table/FilterPeriod'
import { useRows } from '~/table/use-infinite'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { SkeletonRows } from '~/ui/Skeleton'
import { capitalised, formatCount, words } from '~/util/format'
import { parseSince, parseTime, sinceTime } from '~/util/periods'
import { actionWords } from './action-words'
import { AuditRow } from './AuditRow'

const parse = (raw: RawSearch) => ({
  action: raw.action?.slice(0, 100) || undefined,
  actor: raw.actor || undefined,
  subject: raw.subject?.slice(0, 200) || undefined,
  since: parseSince(raw.since),
  until: parseTime(raw.until),
  open: raw.open || undefined,
})

/** Kinds of targets, each of which stands for all actions on it. */
const KINDS = ['agent', 'approval', 'budget', 'conversation', 'discussion', 'mcp_server', 'product', 'project', 'run', 'secret', 'session', 'task', 'token', 'trigger', 'workflow']

export function AuditPage() {
  const [search, change] = useUrlState(parse)
  const { action, actor, subject, since, until } = search
  const { allowed, reason } = useScope('admin:read')
  const tokens = useQuery({ queryKey: keys.tokens, enabled: allowed, queryFn: ({ signal }) => unwrapPage(api.GET('/api/tokens', { params: { query: { limit: 100 } }, signal })) }).data?.items ?? []
  const query = useInfiniteQuery({
    queryKey: [...keys.audit, action ?? null, actor ?? null, since ?? null, until ?? null],
    enabled: allowed,
    refetchInterval: 30_000,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/admin/audit', { params: { query: { action, token: actor, since: since && sinceTime(since, Date.now()), until, limit: 50, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })
  const { rows: loaded, hasMore, isLoadingMore, onMore } = useRows(query)
  const wanted = subject?.toLowerCase()
  const rows = wanted ? loaded.filter(({ target }) => `${target.kind} ${target.name} ${target.id}`.toLowerCase().includes(wanted)) : loaded
  const isFiltered = [action, actor, subject, since, until].some((value) => value !== undefined)
  const clear = () => change({ action: '', actor: '', subject: '', since: '', until: '' })
  const actions = [...new Set([...(action ? [action] : []), ...KINDS, ...loaded.map((entry) => entry.action)])].sort()
  return (
    <>
      <PageHeader title="Audit" description="Who changed what, when, and from where. Entries are added and never changed." />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see the audit.">{reason}</EmptyState>
        ) : (
          <>
            <FilterBar isFiltered={isFiltered} onClear={clear} end={<span className="text-xs text-text-2">{formatCount(rows.length)}{hasMore && '+'} shown</span>}>
              <FilterText label="Search the subjects" placeholder="Search the subjects" value={subject} onChange={(next) => change({ subject: next })} />
              <FilterSelect label="Action" value={action} options={actions.map((value) => ({ value, label: KINDS.includes(value) ? `${capitalised(words(value))}: all` : actionWords(value) }))} onChange={(next) => change({ action: next })} />
              <FilterSelect label="Token" value={actor} options={tokens.map(({ id, name }) => ({ value: id, label: name }))} onChange={(next) => change({ actor: next })} />
              <FilterPeriod since={since} until={until} onChange={change} />
            </FilterBar>
            {query.error ? (
              <ErrorState error={query.error} what="The audit could not be loaded." onRetry={() => void query.refetch()} />
            ) : query.isPending ? (
              <SkeletonRows rows={10} />
            ) : rows.length === 0 ? (
              <EmptyState icon={<ScrollText aria-hidden size={18} />} title={isFiltered ? 'No entry matches these filters.' : 'Nothing was changed yet.'} action={isFiltered && <Button onClick={clear}>Clear the filters</Button>} />
            ) : (
              <ul aria-label="Entries" className="divide-y divide-line">
                {rows.map((entry) => (
                  <AuditRow key={entry.id} entry={entry} isOpen={search.open === entry.id} onToggle={() => change({ open: search.open === entry.id ? '' : entry.id })} />
                ))}
              </ul>
            )}
            {hasMore && <p className="border-t border-line p-2 text-center"><Button size="sm" busy={isLoadingMore} onClick={onMore}>Show older entries</Button></p>}
          </>
        )}
      </Panel>
    </>
  )
}
