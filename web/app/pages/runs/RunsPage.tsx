import { Link, useNavigate } from '@tanstack/react-router'
import { Ban, GitCompareArrows, ListChecks, RotateCcw } from 'lucide-react'
import { useEffect, useMemo, useState } from 'react'
import { useScope } from '~/api/session'
import type { Run } from '~/api/types'
import { useMinWidths } from '~/hooks/use-min-width'
import { useUrlState } from '~/hooks/use-url-state'
import { DataTable } from '~/table/DataTable'
import { Button, buttonClass } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { useActions } from '~/util/actions'
import { formatCount } from '~/util/format'
import { BulkDialog, type BulkAction, VERBS } from './BulkDialog'
import { runColumns } from './run-columns'
import { bulkFilters, parseRunSearch, toRunFilters } from './run-filters'
import { RunFilterBar } from './RunFilterBar'
import { useLiveRuns } from './use-live-runs'

export function RunsPage() {
  const [search, change] = useUrlState(parseRunSearch)
  const filters = useMemo(() => toRunFilters(search, Date.now()), [search])
  const runs = useLiveRuns(filters)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  // Other filters show other rows: nothing is selected that cannot be seen.
  const shown = JSON.stringify(search)
  useEffect(() => setSelected((known) => (known.size === 0 ? known : new Set())), [shown])
  const [bulk, setBulk] = useState<BulkAction>()
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('agents:invoke')
  const navigate = useNavigate()

  const toggle = useMemo(
    () => (run: Run) =>
      setSelected((known) => {
        const next = new Set(known)
        if (!next.delete(run.id)) next.add(run.id)
        return next
      }),
    [],
  )
  const isWide = useMinWidths().lg
  const columns = useMemo(() => runColumns(selected, toggle, isWide), [selected, toggle, isWide])
  const open = (run: Run) => void navigate({ to: '/runs/$runId', params: { runId: run.id } })
  const isFiltered = Object.values(search).some((value) => value !== undefined)
  const clear = () => change({ status: '', agent: '', reason: '', origin: '', since: '', until: '', root: '', q: '' })
  const scope = selected.size > 0 ? formatCount(selected.size) : isFiltered ? 'all that match' : undefined
  const unscoped = scope ? write.reason : 'Select runs or set a filter first.'
  const reasonFor = (action: BulkAction) => unscoped ?? (selected.size > 0 || bulkFilters(action, filters) ? undefined : `The filter shows none of the runs that can be ${VERBS[action].done}.`)
  const [cancelReason, resumeReason] = [reasonFor('cancel'), reasonFor('resume')]
  useActions(
    useMemo(
      () => [
        { id: 'runs-failed', label: 'Show failed runs', group: 'On this page', disabledReason: reason, run: () => change({ status: 'failed' }) },
        { id: 'runs-waiting', label: 'Show runs that wait for a person', group: 'On this page', disabledReason: reason, run: () => change({ status: 'waiting' }) },
        { id: 'runs-cancel', label: 'Cancel these runs…', group: 'On this page', disabledReason: reason ?? cancelReason, run: () => setBulk('cancel') },
        { id: 'runs-resume', label: 'Resume these runs…', group: 'On this page', disabledReason: reason ?? resumeReason, run: () => setBulk('resume') },
      ],
      [change, reason, cancelReason, resumeReason],
    ),
  )

  if (!allowed) {
    return (
      <>
        <PageHeader title="Runs" />
        <EmptyState title="You cannot see runs.">{reason}</EmptyState>
      </>
    )
  }
  const [first, second] = [...selected]
  const compare = <><GitCompareArrows aria-hidden size={14} />Compare</>
  return (
    <div className="flex h-[calc(100dvh-88px)] min-h-96 flex-col">
      <PageHeader
        title="Runs"
        description="Every run of every agent, as it happens."
        actions={
          <>
            {selected.size === 2 ? (
              <Link to="/runs/compare" search={{ left: first, right: second }} className={buttonClass()}>
                {compare}
              </Link>
            ) : (
              <Button disabledReason="Select two runs first.">{compare}</Button>
            )}
            <Button icon={<RotateCcw aria-hidden size={14} />} disabledReason={resumeReason} onClick={() => setBulk('resume')}>
              Resume{scope && ` ${scope}`}…
            </Button>
            <Button icon={<Ban aria-hidden size={14} />} disabledReason={cancelReason} onClick={() => setBulk('cancel')}>
              Cancel{scope && ` ${scope}`}…
            </Button>
          </>
        }
      />
      <div className="flex min-h-0 flex-1 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card">
        <RunFilterBar search={search} onChange={change} isFiltered={isFiltered} onClear={clear} count={runs.rows.length} hasMore={runs.hasMore} />
        {runs.error ? (
          <ErrorState error={runs.error} what="The runs could not be loaded." onRetry={runs.refetch} />
        ) : runs.isLoading ? (
          <SkeletonRows rows={12} />
        ) : runs.rows.length === 0 && !runs.hasMore ? (
          <EmptyState icon={<ListChecks aria-hidden size={18} />} title={isFiltered ? 'No run matches these filters.' : 'No agent has run yet.'} action={isFiltered ? <Button onClick={clear}>Clear the filters</Button> : <Link to="/agents" className={buttonClass('primary')}>Trigger an agent</Link>}>
            {isFiltered ? 'Widen the period, or remove a filter.' : 'Runs appear here as soon as an agent is triggered, a workflow is dispatched, or somebody writes in a chat.'}
          </EmptyState>
        ) : (
          <DataTable label="Runs" columns={columns} rows={runs.rows} rowKey={(run) => run.id} onOpen={open} isSelected={(run) => selected.has(run.id)} onToggle={toggle} hasMore={runs.hasMore} isLoadingMore={runs.isLoadingMore} onMore={runs.onMore} rowHeight={isWide ? 52 : 68} />
        )}
      </div>
      {bulk && <BulkDialog action={bulk} ids={[...selected]} filters={bulkFilters(bulk, filters) ?? filters} onClose={() => setBulk(undefined)} onDone={() => setSelected(new Set())} />}
    </div>
  )
}
