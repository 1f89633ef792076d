import { Link } from '@tanstack/react-router'
import type { ListedWorkflow } from '~/api/types'
import type { Column } from '~/table/DataTable'
import { Rehearsal, Status, statusTone } from '~/ui/Badge'
import { Duration, RelativeTime } from '~/ui/Values'
import { formatCompact, formatMoney } from '~/util/format'
import { doneText } from '../workflow/workflow-query'

function Progress({ facts }: { facts: ListedWorkflow }) {
  const { total: all, completed, skipped } = facts.taskCounts
  // What was skipped is over, but not done.
  const width = (count: number) => (all > 0 ? (count / all) * 100 : 0)
  return (
    <span className="flex items-center gap-2">
      <svg role="progressbar" aria-label={`Tasks done of ${facts.description.slice(0, 80)}`} aria-valuemin={0} aria-valuemax={all} aria-valuenow={completed} viewBox="0 0 100 6" preserveAspectRatio="none" className="block h-1.5 w-full flex-1 rounded-full">
        <rect width="100" height="6" className="fill-sunken" />
        <rect width={width(completed + skipped)} height="6" className="fill-idle-fill" />
        <rect width={width(completed)} height="6" className={`fill-${statusTone(facts.status)}-fill`} />
      </svg>
      <span className="min-w-12 text-right text-xs leading-tight whitespace-nowrap text-text-2">
        {completed} / {all}
        {skipped > 0 && <span className="block">{skipped} skipped</span>}
      </span>
    </span>
  )
}

function Spent({ facts }: { facts: ListedWorkflow }) {
  const { spent } = facts
  const limit = facts.settings.budget
  return (
    <span className="text-text-2">
      {limit.usd != null ? `${formatMoney(spent.usd)} of ${formatMoney(limit.usd)}` : `${formatCompact(spent.tokens)}${limit.tokens != null ? ` of ${formatCompact(limit.tokens)}` : ''} tokens`}
    </span>
  )
}

export const workflowColumns: Column<ListedWorkflow>[] = [
  {
    key: 'what',
    head: 'Workflow',
    width: 'minmax(0, 3fr)',
    cell: (facts) => (
      // In a narrow window, the goal has the first line for itself.
      <span className="flex items-center gap-x-2 max-md:flex-wrap">
        <Link to="/workflows/$workflowId" params={{ workflowId: facts.id }} title={facts.description} className="truncate font-medium hover:underline max-md:w-full">
          {facts.description.split('\n', 1)[0]}
        </Link>
        {facts.rehearsal && <Rehearsal />}
        <span className="flex-1 truncate text-xs text-text-2 md:hidden">
          {doneText(facts.taskCounts)} · <RelativeTime at={facts.createdAt} />
        </span>
      </span>
    ),
  },
  { key: 'status', head: 'Status', width: '128px', cell: (facts) => <Status status={facts.status} /> },
  { key: 'progress', head: 'Tasks done', width: 'minmax(124px, 0.7fr)', from: 'md', cell: (facts) => <Progress facts={facts} /> },
  { key: 'budget', head: 'Spent', width: '132px', from: 'lg', cell: (facts) => <Spent facts={facts} /> },
  { key: 'took', head: 'Took', width: '84px', align: 'end', from: 'lg', cell: (facts) => <Duration milliseconds={facts.completedAt ? Date.parse(facts.completedAt) - Date.parse(facts.createdAt) : undefined} since={facts.createdAt} /> },
  { key: 'started', head: 'Started', width: '84px', align: 'end', from: 'sm', cell: (facts) => <RelativeTime at={facts.createdAt} className="text-text-2" /> },
]
