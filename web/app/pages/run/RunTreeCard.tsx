import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useCallback } from 'react'
import { useProjectEvents } from '~/api/events'
import { keys } from '~/api/keys'
import type { ProjectEvent } from '~/api/types'
import { Status } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { Duration } from '~/ui/Values'
import { classes } from '~/util/classes'
import { shortId } from '~/util/format'
import { nodesOf, type RunDetail, runQuery, type RunTree, useOwnSteps } from './run-queries'

/** The runs that belong together: those that this run was started by, started, resumed, or is resumed as. */
export function RunTreeCard({ run, tree }: { run: RunDetail; tree: UseQueryResult<RunTree> }) {
  const client = useQueryClient()
  const { data } = tree
  useProjectEvents(
    useCallback(
      (event: ProjectEvent) => {
        if (event.type !== 'run' || !data) return
        const ids = new Set(nodesOf(data).map((node) => node.id))
        if (event.runId !== run.id && (ids.has(event.runId) || (event.parentRunId && ids.has(event.parentRunId)))) void client.invalidateQueries({ queryKey: [...keys.run(run.id), 'tree'] })
      },
      [client, data, run.id],
    ),
  )
  const chain = [...run.resumeChain, ...(run.resumeChain.length > 0 || run.resumedAs ? [run.id] : []), ...(run.resumedAs ? [run.resumedAs] : [])]
  return (
    <>
      <Card title="Runs" flush>
        {tree.error ? <ErrorState error={tree.error} what="The tree could not be loaded." onRetry={() => void tree.refetch()} /> : !data ? <SkeletonRows rows={2} /> : <ul className="max-h-96 overflow-auto p-2"><Node node={data} current={run.id} depth={0} /></ul>}
      </Card>
      {chain.length > 0 && (
        <Card title="Resumed" flush>
          <ol className="p-2">
            {chain.map((id, index) => (
              <ChainRow key={id} id={id} before={chain[index - 1]} isCurrent={id === run.id} />
            ))}
          </ol>
        </Card>
      )}
    </>
  )
}

const ROW = 'flex min-w-0 items-center gap-2 rounded-md px-2 py-1.5'

function Node({ node, current, depth }: { node: RunTree; current: string; depth: number }) {
  const isCurrent = node.id === current
  return (
    <li className="min-w-0">
      <Link to="/runs/$runId" params={{ runId: node.id }} aria-current={isCurrent ? 'page' : undefined} className={classes(ROW, isCurrent ? 'bg-selected' : 'hover:bg-hover')}>
        <span className="min-w-0 flex-1 truncate font-medium" title={node.inputPreview ? `${node.agentName}: ${node.inputPreview}` : node.agentName}>
          {node.agentName}
        </span>
        <span className="text-xs whitespace-nowrap text-text-2">{node.durationMs !== null && node.durationMs !== undefined && <Duration milliseconds={node.durationMs} />}</span>
        <Status status={node.status} />
      </Link>
      {node.children.length > 0 && (
        <ul className={classes('ml-3 border-l border-line pl-1', depth > 3 && 'ml-0')}>
          {node.children.map((child) => (
            <Node key={child.id} node={child} current={current} depth={depth + 1} />
          ))}
        </ul>
      )}
      {node.truncated && <p className="px-2 text-xs text-text-2">More runs are not shown here.</p>}
    </li>
  )
}

/** A run of the resume chain, oldest first. */
function ChainRow({ id, before, isCurrent }: { id: string; before: string | undefined; isCurrent: boolean }) {
  const { data } = useQuery(runQuery(id))
  const steps = useOwnSteps(data, before)
  return (
    <li>
      <Link to="/runs/$runId" params={{ runId: id }} aria-current={isCurrent ? 'page' : undefined} className={classes(ROW, isCurrent ? 'bg-selected' : 'hover:bg-hover')}>
        <span className="flex-1 font-mono text-xs">{shortId(id)}</span>
        <span className="text-xs text-text-2">{steps !== undefined && `${steps} ${steps === 1 ? 'step' : 'steps'}`}</span>
        {data && <Status status={data.status} />}
      </Link>
    </li>
  )
}
