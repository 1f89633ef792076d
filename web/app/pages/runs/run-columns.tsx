import { Link } from '@tanstack/react-router'
import type { Run } from '~/api/types'
import type { Column } from '~/table/DataTable'
import { Rehearsal, Status } from '~/ui/Badge'
import { Duration, Money, RelativeTime, Tokens } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { capitalised, shortId, words } from '~/util/format'
import { askedText, isOver, outcomeText } from './run-text'

/** In a narrow window, what a run was asked and what came of it stand below the name of its agent. */
export function runColumns(selected: ReadonlySet<string>, toggle: (run: Run, isRange?: boolean) => void, isWide: boolean, all: { isChecked: boolean; onToggle: () => void }): Column<Run>[] {
  return [
    {
      key: 'select',
      head: <input type="checkbox" aria-label="Select all runs that are loaded" checked={all.isChecked} onChange={all.onToggle} className="size-3.5 align-middle accent-accent" />,
      width: '20px',
      cell: (run) => <input type="checkbox" checked={selected.has(run.id)} onChange={({ nativeEvent }) => toggle(run, 'shiftKey' in nativeEvent && nativeEvent.shiftKey === true)} aria-label={`Select the run ${shortId(run.id)} of ${run.agentName}`} className="size-3.5 align-middle accent-accent" />,
    },
    {
      key: 'agent',
      head: 'Agent',
      width: 'minmax(0, 1.5fr)',
      cell: (run) => (
        <>
          <Link to="/runs/$runId" params={{ runId: run.id }} className="font-medium hover:underline">
            {run.agentName}
            <span className="ml-2 hidden font-mono text-xs font-normal text-text-3 2xl:inline">{shortId(run.id)}</span>
          </Link>
          {!isWide && <What run={run} isWide={false} />}
        </>
      ),
    },
    { key: 'status', head: 'Status', width: 'clamp(104px, 11vw, 136px)', cell: (run) => <StatusAndWhy run={run} /> },
    { key: 'note', head: 'What', width: 'minmax(0, 2.4fr)', from: 'lg', cell: (run) => <What run={run} isWide /> },
    { key: 'origin', head: 'Origin', width: '64px', from: 'lg', cell: (run) => <span className="text-text-2">{capitalised(words(run.origin))}</span> },
    { key: 'steps', head: 'Steps', width: '40px', align: 'end', from: 'xl', cell: (run) => run.stepCount },
    { key: 'tokens', head: 'Tokens', width: '52px', align: 'end', from: 'xl', cell: (run) => <Tokens input={run.tokenUsage.totalInput} output={run.tokenUsage.totalOutput} /> },
    { key: 'cost', head: 'Cost', width: '56px', align: 'end', from: 'md', cell: (run) => <Money usd={run.tokenUsage.totalCost} /> },
    { key: 'duration', head: 'Duration', width: '80px', align: 'end', from: 'sm', cell: (run) => <Duration milliseconds={run.durationMs} since={isOver(run) ? undefined : run.startedAt} /> },
    { key: 'created', head: 'Created', width: '72px', align: 'end', from: 'sm', cell: (run) => <RelativeTime at={run.createdAt} className="text-text-2" /> },
  ]
}

/** The status is whole at every width: why it is so stands below it. */
function StatusAndWhy({ run }: { run: Run }) {
  const why = run.reason ?? run.waitingFor
  return (
    <>
      <Status status={run.status} />
      {why && <p title={words(why)} className="truncate text-xs text-text-2">{capitalised(words(why))}</p>}
    </>
  )
}

/** What it was asked, and below it what came of it. */
const What = ({ run, isWide }: { run: Run; isWide: boolean }) => (
  <div title={run.inputPreview ?? undefined} className={isWide ? undefined : 'text-xs'}>
    <p className="truncate">{askedText(run)}</p>
    <p className="flex items-center gap-1.5 text-xs text-text-2">
      {run.rehearsal && <Rehearsal />}
      {!isWide && <RelativeTime at={run.createdAt} className="sm:hidden" />}
      <span className="truncate">
        <WithCode text={outcomeText(run)} />
      </span>
    </p>
  </div>
)
