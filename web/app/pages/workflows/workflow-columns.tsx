import { Link } from '@tanstack/react-router'
import type { ListedWorkflow } from '~/api/types'
import type { Column } from '~/table/DataTable'
import { Status, statusTone } from '~/ui/Badge'
import { Duration, RelativeTime } from '~/ui/Values'
import { formatCompact, formatMoney } from '~/util/format'

const FILLS = { ok: 'fill-ok-fill', run: 'fill-run-fill', wait: 'fill-wait-fill', fail: 'fill-fail-fill', pause: 'fill-pause-fill', idle: 'fill-idle-fill' }

function Progress({ facts }: { facts: ListedWorkflow }) {
  const { total: all, completed, skipped } = facts.taskCounts
  const done = completed + skipped
  return (
    <span className="flex items-center gap-2">
      <svg role="progressbar" aria-label={`Tasks done of ${facts.description.slice(0, 80)}`} aria-valuemin={0} aria-valuemax={all} aria-valuenow={done} viewBox="0 0 100 6" preserveAspectRatio="none" className="block h-1.5 w-full flex-1 rounded-full">
        <rect width="100" height="6" className="fill-sunken" />
        <rect width={all > 0 ? (done / all) * 100 : 0} height="6" className={FILLS[statusTone(facts.status)]} />
      </svg>
      <span className="w-12 text-right text-xs whitespace-nowrap text-text-2">
        {done} / {all}
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
      <Link to="/workflows/$workflowId" params={{ workflowId: facts.id }} title={facts.description} className="font-medium hover:underline">
        {facts.description.split('\n', 1)[0]}
      </Link>
    ),
  },
  { key: 'status', head: 'Status', width: 'clamp(104px, 12vw, 128px)', cell: (facts) => <Status status={facts.status} /> },
  { key: 'progress', head: 'Tasks done', width: 'minmax(120px, 1fr)', from: 'md', cell: (facts) => <Progress facts={facts} /> },
  { key: 'budget', head: 'Spent', width: '140px', from: 'lg', cell: (facts) => <Spent facts={facts} /> },
  { key: 'took', head: 'Took', width: '80px', align: 'end', from: 'lg', cell: (facts) => <Duration milliseconds={facts.completedAt ? Date.parse(facts.completedAt) - Date.parse(facts.createdAt) : undefined} since={facts.createdAt} /> },
  { key: 'started', head: 'Started', width: '84px', align: 'end', from: 'sm', cell: (facts) => <RelativeTime at={facts.createdAt} className="text-text-2" /> },
]
