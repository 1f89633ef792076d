import { useInfiniteQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Play, Plus, Waypoints } from 'lucide-react'
import { useMemo } from 'react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { useMinWidths } from '~/hooks/use-min-width'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { DataTable } from '~/table/DataTable'
import { FilterBar, FilterSelect, FilterText } from '~/table/FilterBar'
import { useRows } from '~/table/use-infinite'
import { statusWord } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { useActions } from '~/util/actions'
import { formatCount } from '~/util/format'
import { lazyPart } from '~/util/lazy-part'
import { DispatchDialog } from './DispatchDialog'
import { workflowColumns } from './workflow-columns'

const DemoDialog = lazyPart(() => import('../overview/DemoDialog').then((module) => module.DemoDialog))

const STATUSES = ['planning', 'running', 'escalated', 'completed', 'failed', 'cancelled'] as const
const parse = (raw: RawSearch) => ({ status: oneOf(STATUSES, raw.status), q: raw.q?.slice(0, 200) || undefined, dispatch: oneOf(['new', 'demo'], raw.dispatch) })

export function WorkflowsPage() {
  const [search, change] = useUrlState(parse)
  const { status, q, dispatch } = search
  const { allowed, reason } = useScope('agents:read')
  const invoke = useScope('agents:invoke')
  const write = useScope('admin:write')
  // The demo installs products before it dispatches.
  const demoReason = write.reason ?? invoke.reason
  const close = () => change({ dispatch: '' })
  const navigate = useNavigate()
  const isWide = useMinWidths().md
  const query = useInfiniteQuery({
    queryKey: [...keys.workflows, 'list', status ?? null],
    enabled: allowed,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/coordination/workflows', { params: { query: { status, limit: 50, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })
  const { rows: loaded, hasMore, isLoadingMore, onMore } = useRows(query)
  const rows = useMemo(() => (q ? loaded.filter(({ description }) => description.toLowerCase().includes(q.toLowerCase())) : loaded), [loaded, q])
  useActions(
    useMemo(
      () => [
        { id: 'workflow-dispatch', label: 'Dispatch a workflow…', group: 'On this page', disabledReason: reason ?? invoke.reason, run: () => change({ dispatch: 'new' }, { push: true }) },
        { id: 'workflow-demo', label: 'Run the demo workflow…', group: 'On this page', disabledReason: reason ?? demoReason, run: () => change({ dispatch: 'demo' }, { push: true }) },
      ],
      [change, reason, invoke.reason, demoReason],
    ),
  )
  if (!allowed) {
    return (
      <>
        <PageHeader title="Workflows" />
        <EmptyState title="You cannot see workflows.">{reason}</EmptyState>
      </>
    )
  }
  const isFiltered = status !== undefined || q !== undefined
  const clear = () => change({ status: '', q: '' })
  const demo = (
    <Button icon={<Play aria-hidden size={14} />} disabledReason={demoReason} onClick={() => change({ dispatch: 'demo' }, { push: true })}>
      Run the demo…
    </Button>
  )
  return (
    <div className="flex h-[calc(100dvh-88px)] min-h-96 flex-col">
      <PageHeader
        title="Workflows"
        description="Several agents on one goal, task by task."
        actions={
          <>
            {demo}
            <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={invoke.reason} onClick={() => change({ dispatch: 'new' }, { push: true })}>
              Dispatch…
            </Button>
          </>
        }
      />
      <div className="flex min-h-0 flex-1 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card">
        <FilterBar isFiltered={isFiltered} onClear={clear} end={<span className="text-xs text-text-2">{formatCount(rows.length)}{hasMore && '+'} shown</span>}>
          <FilterText label="Search the workflows" placeholder="Search the goal" value={q} onChange={(next) => change({ q: next })} />
          <FilterSelect label="Status" value={status} options={STATUSES.map((value) => ({ value, label: statusWord(value) }))} onChange={(next) => change({ status: next })} />
        </FilterBar>
        {query.error ? (
          <ErrorState error={query.error} what="The workflows could not be loaded." onRetry={() => void query.refetch()} />
        ) : query.isPending ? (
          <SkeletonRows rows={8} />
        ) : rows.length === 0 && !hasMore ? (
          <EmptyState icon={<Waypoints aria-hidden size={18} />} title={isFiltered ? 'No workflow matches these filters.' : 'No workflow was dispatched yet.'} action={isFiltered ? <Button onClick={clear}>Clear the filters</Button> : demo}>
            {!isFiltered && 'Describe tasks and what they depend on; agents do them in order, and you see every decision.'}
          </EmptyState>
        ) : (
          <DataTable label="Workflows" columns={workflowColumns} rows={rows} rowKey={({ id }) => id} onOpen={({ id }) => void navigate({ to: '/workflows/$workflowId', params: { workflowId: id } })} hasMore={hasMore} isLoadingMore={isLoadingMore} onMore={onMore} rowHeight={isWide ? 42 : 52} />
        )}
      </div>
      {dispatch === 'new' && <DispatchDialog disabledReason={invoke.reason} onClose={close} />}
      {dispatch === 'demo' && <DemoDialog disabledReason={demoReason} onClose={close} />}
    </div>
  )
}
