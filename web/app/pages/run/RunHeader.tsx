import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Badge, Rehearsal, Status } from '~/ui/Badge'
import { CopyButton } from '~/ui/CopyButton'
import { PageHeader } from '~/ui/PageHeader'
import { Duration, Money, RelativeTime, Tokens } from '~/ui/Values'
import { capitalised, shortId, words } from '~/util/format'
import { RunActions } from './RunActions'
import { isOver, type RunDetail, useOwnSteps } from './run-queries'

const LINK = 'text-accent-text hover:underline rounded-sm'

export function RunHeader({ run, isLive, isLost }: { run: RunDetail; isLive: boolean; isLost: boolean }) {
  const steps = useOwnSteps(run, run.resumedFrom)
  const facts: [string, ReactNode][] = [
    ['Agent', <Link key="a" to="/agents/$agentId" params={{ agentId: run.agentId }} className={LINK}>{run.agentName}</Link>],
    ['Model', run.model],
    ['Origin', <OriginOf key="o" run={run} />],
    ['Started', <RelativeTime key="s" at={run.startedAt ?? run.createdAt} />],
    ['Duration', <Duration key="d" milliseconds={run.durationMs} since={isOver(run.status) ? undefined : run.startedAt} />],
    ['Steps', steps === undefined ? '–' : run.maxSteps ? `${steps} of ${run.maxSteps}` : steps],
    ['Tokens', <Tokens key="t" input={run.tokenUsage.totalInput} output={run.tokenUsage.totalOutput} />],
    ['Cost', <Money key="c" usd={run.tokenUsage.totalCost} />],
  ]
  return (
    <>
      <PageHeader
        title={`${run.agentName}, run ${shortId(run.id)}`}
        above={
          <>
            <Link to="/runs" className="hover:underline">Runs</Link>
            {run.parentRunId && (
              <>
                {' / '}
                <Link to="/runs/$runId" params={{ runId: run.parentRunId }} className="hover:underline">{shortId(run.parentRunId)}</Link>
              </>
            )}
          </>
        }
        heading={
          <span className="flex flex-wrap items-center gap-x-2.5 gap-y-1">
            <span className="min-w-0">{run.agentName}</span>
            <Status status={run.status} detail={run.reason ?? (run.status === 'waiting' ? run.waitingFor : undefined)} />
            {run.rehearsal && <Rehearsal />}
            {isLive && <Badge tone="run">Followed live</Badge>}
            {isLost && <Badge tone="warn">Reconnecting</Badge>}
          </span>
        }
        description={
          <span className="inline-flex items-center gap-1 font-mono text-xs">
            {run.id}
            <CopyButton text={run.id} label="Copy the id of the run" />
          </span>
        }
        actions={<RunActions run={run} />}
      />
      <dl className="mb-4 grid grid-cols-2 gap-x-6 gap-y-3 rounded-lg border border-line bg-surface px-4 py-3 shadow-card sm:grid-cols-4 xl:flex xl:flex-wrap xl:justify-between">
        {facts.map(([name, value]) => (
          <div key={name} className="min-w-0">
            <dt className="text-xs text-text-2">{name}</dt>
            <dd className="truncate font-medium">{value}</dd>
          </div>
        ))}
      </dl>
    </>
  )
}

/** What started the run, with a link to it where the record names it. */
function OriginOf({ run }: { run: RunDetail }) {
  const name = capitalised(words(run.origin))
  const toRun = (runId: string, text: string) => (
    <>
      {name} of{' '}
      <Link to="/runs/$runId" params={{ runId }} className={LINK}>
        {text} {shortId(runId)}
      </Link>
    </>
  )
  if (run.resumedFrom) return toRun(run.resumedFrom, 'run')
  if (run.parentRunId) return toRun(run.parentRunId, 'run')
  if (run.scheduleId) return <Link to="/schedules" search={{ item: run.scheduleId }} className={LINK}>{name}</Link>
  if (run.causedByRun) return toRun(run.causedByRun, 'run')
  if (run.conversationId) return <Link to="/chat/$conversationId" params={{ conversationId: run.conversationId }} className={LINK}>{name}</Link>
  if (run.workflowId && run.origin === 'dispatch') return <Link to="/workflows/$workflowId" params={{ workflowId: run.workflowId }} className={LINK}>Workflow</Link>
  return <>{name}</>
}
