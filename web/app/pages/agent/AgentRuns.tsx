import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { recentRunsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Run } from '~/api/types'
import { Status } from '~/ui/Badge'
import { buttonClass } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { type ListColumn, ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { Panel } from '~/ui/Panel'
import { Duration, Money, RelativeTime, Tokens } from '~/ui/Values'
import { shortId } from '~/util/format'
import { shortText } from '~/util/short-text'

const COLUMNS: ListColumn<Run>[] = [
  { key: 'run', head: 'Run', cell: (run) => <Link to="/runs/$runId" params={{ runId: run.id }} className="font-mono text-xs hover:underline">{shortId(run.id)}</Link> },
  { key: 'asked', head: 'Asked', from: 'md', className: 'max-w-0 w-2/5', cell: (run) => <span title={run.inputPreview ?? undefined} className="block truncate">{run.inputPreview && shortText(run.inputPreview)}</span> },
  { key: 'status', head: 'Status', cell: (run) => <Status status={run.status} detail={run.reason ?? run.waitingFor} /> },
  { key: 'steps', head: 'Steps', align: 'end', from: 'sm', cell: (run) => run.stepCount },
  { key: 'tokens', head: 'Tokens', align: 'end', from: 'sm', cell: (run) => <Tokens input={run.tokenUsage.totalInput} output={run.tokenUsage.totalOutput} /> },
  { key: 'cost', head: 'Cost', align: 'end', from: 'md', cell: (run) => <Money usd={run.tokenUsage.totalCost} /> },
  { key: 'duration', head: 'Duration', align: 'end', from: 'sm', cell: (run) => <Duration milliseconds={run.durationMs} since={run.startedAt} /> },
  { key: 'created', head: 'Created', align: 'end', cell: (run) => <RelativeTime at={run.createdAt} className="text-text-2" /> },
]

/** The newest runs of an agent. */
export function AgentRuns({ agent }: { agent: string }) {
  const { allowed, reason } = useScope('admin:read')
  const runs = useQuery({ ...recentRunsQuery({ agent }, 25), enabled: allowed })
  if (!allowed) return <EmptyState title="You cannot see runs.">{reason}</EmptyState>
  return (
    <Panel>
      <Loaded query={runs} what="The runs could not be loaded.">
        {({ items, cursor }) =>
          items.length === 0 ? (
            <EmptyState title="It has not run yet.">Trigger it, and the run appears here.</EmptyState>
          ) : (
            <>
              <ListTable label="Runs of the agent" columns={COLUMNS} rows={items} rowKey={(run) => run.id} />
              {cursor && <div className="border-t border-line p-3 text-center"><Link to="/runs" search={{ agent }} className={buttonClass('secondary', 'sm')}>Show all its runs</Link></div>}
            </>
          )
        }
      </Loaded>
    </Panel>
  )
}
