import { Link, useNavigate } from '@tanstack/react-router'
import { Ban, GitCompareArrows, ListChecks, RotateCcw } from 'lucide-react'
import { useCallback, useEffect, useMemo, useState } from 'react'
import { useScope } from '~/api/session'
import type { Run } from '~/api/types'
import { useMinWidths } from '~/hooks/use-min-width'
import { useUrlDialog, useUrlState } from '~/hooks/use-url-state'
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
import { rangeOf, toggled } from './selection'
import { useLiveRuns } from './use-live-runs'

const BULK = ['cancel', 'resume'] as const satisfies readonly BulkAction[]
const SELECTED = 'selected'

export function RunsPage() {
  const [search, change] = useUrlState(parseRunSearch)
  const filters = useMemo(() => toRunFilters(search, Date.now()), [search])
  const runs = useLiveRuns(filters)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  // Other filters show other rows: nothing is selected that cannot be seen.
  const shown = JSON.stringify(search)
  useEffect(() => setSelected((known) => (known.size === 0 ? known : new Set())), [shown])
  const { dialog: bulk, of, open, close: closeBulk } = useUrlDialog(BULK)
  // The address says that a dialog is about a selection, which a reload forgets: it is never about all of the filter then.
  const isOfSelection = of === SELECTED
  const hasSelected = selected.size > 0
  const openBulk = useCallback((action: BulkAction) => open(action, hasSelected ? SELECTED : undefined), [open, hasSelected])
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('agents:invoke')
  const navigate = useNavigate()

  // The row of the last change, where a range begins.
  const [from, setFrom] = useState<string>()
  const { rows } = runs
  const toggle = useCallback(
    (run: Run, isRange = false) => {
      const ids = isRange && from ? rangeOf(rows.map(({ id }) => id), from, run.id) : [run.id]
      setFrom(run.id)
      setSelected((known) => toggled(known, ids, run.id))
    },
    [rows, from],
  )
  const isAll = rows.length > 0 && rows.every(({ id }) => selected.has(id))
  const toggleAll = useCallback(() => setSelected(new Set(isAll ? [] : rows.map(({ id }) => id))), [rows, isAll])
  const isWide = useMinWidths().lg
  const columns = useMemo(() => runColumns(selected, toggle, isWide, { isChecked: isAll, onToggle: toggleAll }), [selected, toggle, isWide, isAll, toggleAll])
  const openRun = (run: Run) => void navigate({ to: '/runs/$runId', params: { runId: run.id } })
  const isFiltered = Object.values(search).some((value) => value !== undefined)
  const clear = () => change({ status: '', agent: '', reason: '', origin: '', since: '', until: '', root: '', q: '' })
  const scope = hasSelected ? formatCount(selected.size) : isFiltered ? 'all that match' : undefined
  const isEmpty = isFiltered && !runs.isLoading && !runs.error && runs.rows.length === 0 && !runs.hasMore
  const reasonOfFilter = (action: BulkAction) =>
    write.reason ?? (!isFiltered ? 'Select runs or set a filter first.' : isEmpty ? 'No run matches these filters.' : bulkFilters(action, filters) ? undefined : `The filter shows none of the runs that can be ${VERBS[action].done}.`)
  const reasonFor = (action: BulkAction) => (hasSelected ? write.reason : reasonOfFilter(action))
  const [cancelReason, resumeReason] = [reasonFor('cancel'), reasonFor('resume')]
  const dialogReason = (action: BulkAction) =>
    !isOfSelection ? reasonOfFilter(action) : (write.reason ?? (hasSelected ? undefined : 'The runs that were selected are not known any more: select them again.'))
  useActions(
    useMemo(
      () => [
        { id: 'runs-failed', label: 'Show failed runs', group: 'On this page', disabledReason: reason, run: () => change({ status: 'failed' }) },
        { id: 'runs-waiting', label: 'Show runs that wait for a person', group: 'On this page', disabledReason: reason, run: () => change({ status: 'waiting' }) },
        { id: 'runs-cancel', label: 'Cancel these runs…', group: 'On this page', disabledReason: reason ?? cancelReason, run: () => openBulk('cancel') },
        { id: 'runs-resume', label: 'Resume these runs…', group: 'On this page', disabledReason: reason ?? resumeReason, run: () => openBulk('resume') },
      ],
      [change, openBulk, reason, cancelReason, resumeReason],
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
            <Button icon={<RotateCcw aria-hidden size={14} />} disabledReason={resumeReason} onClick={() => openBulk('resume')}>
              Resume{scope && ` ${scope}`}…
            </Button>
            <Button icon={<Ban aria-hidden size={14} />} disabledReason={cancelReason} onClick={() => openBulk('cancel')}>
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
          <DataTable label="Runs" columns={columns} rows={runs.rows} rowKey={(run) => run.id} onOpen={openRun} isSelected={(run) => selected.has(run.id)} onToggle={toggle} hasMore={runs.hasMore} isLoadingMore={runs.isLoadingMore} onMore={runs.onMore} rowHeight={isWide ? 52 : 68} />
        )}
      </div>
      {bulk && !runs.isLoading && <BulkDialog key={bulk} action={bulk} disabledReason={dialogReason(bulk)} ids={isOfSelection ? [...selected] : []} filters={bulkFilters(bulk, filters) ?? filters} onClose={closeBulk} onDone={() => setSelected(new Set())} />}
    </div>
  )
}
