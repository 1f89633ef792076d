import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowLeftRight } from 'lucide-react'
import { useScope } from '~/api/session'
import { type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { Switch } from '~/ui/Field'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { isOver, type RunDetail, runQuery } from '../run/run-queries'
import { useRunRecord } from '../run/use-run-record'
import { FactsTable } from './FactsTable'
import { RunPicker } from './RunPicker'
import { StepsCompare } from './StepsCompare'
import { WritesCompare } from './WritesCompare'

const parse = (raw: RawSearch) => ({ left: raw.left || undefined, right: raw.right || undefined, all: raw.all === 'true' })

export function RunComparePage() {
  const [{ left, right, all }, change] = useUrlState(parse)
  const { allowed, reason } = useScope('admin:read')
  const a = useQuery({ ...runQuery(left ?? ''), enabled: allowed && left !== undefined })
  const b = useQuery({ ...runQuery(right ?? ''), enabled: allowed && right !== undefined })
  const header = (
    <PageHeader
      title="Compare two runs"
      above={<Link to="/runs" className="hover:underline">Runs</Link>}
      description="What two runs did differently: what they were asked, each step, what they wrote and what it cost."
      actions={
        left && right ? (
          <>
            <Switch label="Also what is the same" checked={all} onChange={(next) => change({ all: next ? 'true' : '' })} />
            <Button icon={<ArrowLeftRight aria-hidden size={14} />} onClick={() => change({ left: right, right: left })}>
              Swap
            </Button>
          </>
        ) : undefined
      }
    />
  )
  if (!allowed) return <>{header}<EmptyState title="You cannot see runs.">{reason}</EmptyState></>
  const failed = a.error ? a : b.error ? b : undefined
  return (
    <>
      {header}
      <div className="mb-4 grid gap-3 rounded-lg border border-line bg-surface px-4 py-3 shadow-card md:grid-cols-2">
        <RunPicker label="Left run" value={left} other={b.data} onChange={(id) => change({ left: id })} />
        <RunPicker label="Right run" value={right} other={a.data} onChange={(id) => change({ right: id })} />
      </div>
      {failed ? (
        <ErrorState error={failed.error} what="A run could not be loaded." onRetry={() => void failed.refetch()} />
      ) : !left || !right ? (
        <EmptyState title="Choose two runs.">Two runs of one agent show best what a change of its prompt, its tools or its model did.</EmptyState>
      ) : a.data && b.data ? (
        <Compared key={`${left} ${right}`} left={a.data} right={b.data} all={all} />
      ) : (
        <SkeletonRows rows={8} />
      )}
    </>
  )
}

function Compared({ left, right, all }: { left: RunDetail; right: RunDetail; all: boolean }) {
  const a = useRunRecord(left, { keepsValues: true })
  const b = useRunRecord(right, { keepsValues: true })
  const version = a.version + b.version
  // Half of a record would look like a difference.
  const isComplete = (a.record.ended || !isOver(left.status)) && (b.record.ended || !isOver(right.status))
  return (
    <div className="grid grid-cols-1 gap-4">
      <FactsTable left={left} right={right} all={all} />
      <StepsCompare left={a.record} right={b.record} version={version} isComplete={isComplete} all={all} />
      <WritesCompare left={left} right={right} all={all} />
    </div>
  )
}
