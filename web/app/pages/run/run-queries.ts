// What the pages about runs read.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api, unwrap, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import type { RunStatus, Schemas } from '~/api/types'

export type RunDetail = Schemas['RunDetail']
export type RunTree = Schemas['RunTree']

export const isOver = (status: RunStatus) => ['completed', 'failed', 'paused', 'cancelled'].includes(status)

export const runQuery = (runId: string) =>
  queryOptions({
    queryKey: keys.run(runId),
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/runs/{runId}', { params: { path: { runId } }, signal })),
  })

/** The steps of a run without those of the runs it goes on from. Undefined until those are known. */
export function useOwnSteps(run: { stepCount: number } | undefined, before: string | null | undefined): number | undefined {
  const { data } = useQuery({ ...runQuery(before ?? ''), enabled: Boolean(before) })
  if (!run || (before && !data)) return undefined
  return Math.max(0, run.stepCount - (before ? data!.stepCount : 0))
}

/** The whole tree that a run belongs to: from the run that no other run started. */
export const treeQuery = (run: { id: string; agentId: string; parentRunId?: string | null }) =>
  queryOptions({
    queryKey: [...keys.run(run.id), 'tree'],
    queryFn: async ({ signal }) => {
      let top = run
      while (top.parentRunId) top = await unwrap(api.GET('/api/admin/runs/{runId}', { params: { path: { runId: top.parentRunId } }, signal }))
      return unwrap(api.GET('/api/admin/agents/{agentId}/runs/{runId}/tree', { params: { path: { agentId: top.agentId, runId: top.id } }, signal }))
    },
  })

export const callQuery = (agentId: string, runId: string, toolCallId: string) =>
  queryOptions({
    queryKey: [...keys.run(runId), 'call', toolCallId],
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/agents/{agentId}/runs/{runId}/tool-calls/{toolCallId}', { params: { path: { agentId, runId, toolCallId } }, signal })),
  })

export const nodesOf = (tree: RunTree): RunTree[] => [tree, ...tree.children.flatMap(nodesOf)]
const findNode = (tree: RunTree, id: string): RunTree | undefined => nodesOf(tree).find((node) => node.id === id)

/** Tokens and cost of the runs below a run. The limits of a run count them. */
export const spendBelowQuery = (run: RunDetail, tree: RunTree) =>
  queryOptions({
    queryKey: [...keys.run(run.id), 'below', nodesOf(tree).length],
    queryFn: async ({ signal }) => {
      const parents = nodesOf(findNode(tree, run.id) ?? tree).filter((node) => node.children.length > 0)
      const pages = await Promise.all(parents.map((node) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { parent_run_id: node.id, limit: 100 } }, signal }))))
      const runs = pages.flatMap((page) => page.items)
      return {
        tokens: runs.reduce((sum, one) => sum + one.tokenUsage.totalInput + one.tokenUsage.totalOutput, 0),
        usd: runs.reduce((sum, one) => sum + (one.tokenUsage.totalCost ?? 0), 0),
      }
    },
  })
