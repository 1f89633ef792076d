import { Link } from '@tanstack/react-router'
import type { Run } from '~/api/types'
import type { Column } from '~/table/DataTable'
import { Status } from '~/ui/Badge'
import { Duration, Money, RelativeTime, Tokens } from '~/ui/Values'
import { capitalised, shortId, words } from '~/util/format'

const isOver = (run: Run) => ['completed', 'failed', 'paused', 'cancelled'].includes(run.status)

export function runColumns(selected: ReadonlySet<string>, toggle: (run: Run) => void): Column<Run>[] {
  return [
    {
      key: 'select',
      head: <span className="sr-only">Selected</span>,
      width: '20px',
      cell: (run) => <input type="checkbox" checked={selected.has(run.id)} onChange={() => toggle(run)} aria-label={`Select the run ${shortId(run.id)} of ${run.agentName}`} className="size-3.5 align-middle accent-accent" />,
    },
    {
      key: 'agent',
      head: 'Agent',
      width: 'minmax(0, 1.2fr)',
      cell: (run) => (
        <Link to="/runs/$runId" params={{ runId: run.id }} className="font-medium hover:underline">
          {run.agentName}
          <span className="ml-2 hidden font-mono text-xs font-normal text-text-3 2xl:inline">{shortId(run.id)}</span>
        </Link>
      ),
    },
    { key: 'status', head: 'Status', width: 'clamp(104px, 14vw, 152px)', cell: (run) => <Status status={run.status} detail={run.reason ?? run.waitingFor} /> },
    { key: 'note', head: 'What', width: 'minmax(0, 2.4fr)', from: 'lg', cell: (run) => <span className="text-text-2">{run.errorMessage ?? note(run)}</span> },
    { key: 'origin', head: 'Origin', width: '64px', from: 'lg', cell: (run) => <span className="text-text-2">{capitalised(words(run.origin))}</span> },
    { key: 'steps', head: 'Steps', width: '48px', align: 'end', from: 'xl', cell: (run) => run.stepCount },
    { key: 'tokens', head: 'Tokens', width: '52px', align: 'end', from: 'xl', cell: (run) => <Tokens input={run.tokenUsage.totalInput} output={run.tokenUsage.totalOutput} /> },
    { key: 'cost', head: 'Cost', width: '56px', align: 'end', from: 'md', cell: (run) => <Money usd={run.tokenUsage.totalCost} /> },
    { key: 'duration', head: 'Duration', width: '76px', align: 'end', from: 'sm', cell: (run) => <Duration milliseconds={run.durationMs} since={isOver(run) ? undefined : run.startedAt} /> },
    { key: 'created', head: 'Created', width: '72px', align: 'end', cell: (run) => <RelativeTime at={run.createdAt} className="text-text-2" /> },
  ]
}

/** The first line of what the run said at its end. */
function note(run: Run): string {
  const text = run.summary && 'text' in run.summary && typeof run.summary.text === 'string' ? run.summary.text : ''
  return text.split('\n', 1)[0] || run.model
}
