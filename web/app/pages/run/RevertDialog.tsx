import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { ErrorState } from '~/ui/ErrorState'
import { Switch } from '~/ui/Field'
import { ScrollList } from '~/ui/ScrollList'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'
import { WithCode } from '~/ui/WithCode'
import { formatCount, shortId } from '~/util/format'
import type { RunDetail } from './run-queries'

type Reverted = Schemas['Reverted']
const HOW: Record<string, string> = { deleted: 'is deleted', put_back: 'gets back what it had before', restored: 'is restored' }
const SHOWN = 100

const things = (count: number) => `${formatCount(count)} ${count === 1 ? 'thing' : 'things'}`
const nameOf = (one: { kind: string; id: string; name?: string | null }) => (one.kind === 'object' ? (one.name ?? shortId(one.id)) : one.kind === 'relationship' ? `${one.name ?? 'relationship'} ${shortId(one.id)}` : `document ${shortId(one.id)}`)

/** The report of a large revert lists only some of what it undid, and counts the rest. */
const undoneCount = (report: Reverted) => report.undone.length + (report.unlistedUndone ?? 0)
const conflictCount = (report: Reverted) => report.conflicts.length + (report.unlistedConflicts ?? 0)

/** Shows what would be undone before a person undoes it. */
export function RevertDialog({ run, disabledReason, onClose }: { run: RunDetail; disabledReason: string | undefined; onClose: () => void }) {
  const [tree, setTree] = useState(false)
  const client = useQueryClient()
  const revert = (dryRun: boolean, signal?: AbortSignal) =>
    unwrap(api.POST('/api/admin/agents/{agentId}/runs/{runId}/revert', { params: { path: { agentId: run.agentId, runId: run.id } }, body: { dryRun, tree }, ...(signal && { signal }) }))
  const plan = useQuery({ queryKey: [...keys.run(run.id), 'revert', tree], enabled: disabledReason === undefined, staleTime: 0, gcTime: 0, queryFn: ({ signal }) => revert(true, signal) })
  const apply = useMutationOnce({
    mutationFn: () => revert(false),
    onSuccess: (result) => {
      const undone = undoneCount(result)
      toast(`${things(undone)} ${undone === 1 ? 'was' : 'were'} reverted.`, result.conflicts.length > 0 ? { description: `${things(conflictCount(result))} had been changed by somebody else and stayed.`, kind: 'info' } : {})
      for (const queryKey of [keys.run(run.id), keys.objects, ...result.undone.map((one) => keys.object(one.id))]) void client.invalidateQueries({ queryKey })
      onClose()
    },
  })
  const count = plan.data ? undoneCount(plan.data) : 0
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      onConfirm={() => apply.mutate()}
      title="Revert what this run wrote"
      action={plan.data ? `Revert ${things(count)}` : 'Revert'}
      danger
      busy={apply.isPending || plan.isLoading}
      disabledReason={disabledReason ?? (plan.data && count === 0 ? 'There is nothing to revert.' : undefined)}
      error={apply.error}
    >
      {run.childRuns.length > 0 && <Switch label="Also what the runs below it wrote" checked={tree} onChange={setTree} />}
      {plan.error ? <ErrorState error={plan.error} what="The server could not say what would be undone." onRetry={() => void plan.refetch()} /> : disabledReason && !plan.data ? <p>{disabledReason}</p> : !plan.data ? <SkeletonRows rows={3} /> : <Plan plan={plan.data} />}
    </ConfirmDialog>
  )
}

export function Plan({ plan }: { plan: Reverted }) {
  return (
    <>
      <p>{plan.undone.length > 0 ? 'Each undo is a new version, so the history keeps what the run wrote:' : 'Nothing that the run wrote stands any more, or it wrote nothing.'}</p>
      {plan.undone.length > 0 && (
        <ScrollList label="What would be undone" className="max-h-52 space-y-1 rounded-md border border-line bg-sunken px-3 py-2 text-xs">
          {plan.undone.slice(0, SHOWN).map((one) => (
            <li key={one.id} className="break-words">
              <strong className="font-medium text-text">{nameOf(one)}</strong> {HOW[one.how] ?? one.how}
            </li>
          ))}
          {plan.undone.length > SHOWN && <li>and {formatCount(undoneCount(plan) - SHOWN)} more</li>}
        </ScrollList>
      )}
      {plan.conflicts.length > 0 && (
        <div>
          <p>This stays as it is:</p>
          <ScrollList label="What stays" className="mt-1 max-h-40 space-y-1 rounded-md bg-warn-soft px-3 py-2 text-xs text-warn">
            {plan.conflicts.slice(0, SHOWN).map((one) => (
              <li key={one.id} className="break-words">
                <strong className="font-medium">{nameOf(one)}</strong>: <WithCode text={one.reason} />
              </li>
            ))}
            {plan.conflicts.length > SHOWN && <li>and {formatCount(conflictCount(plan) - SHOWN)} more</li>}
          </ScrollList>
        </div>
      )}
      {(plan.children ?? []).map((child) => (
        <p key={child.runId}>
          What {child.agentName} ({shortId(child.runId)}) wrote stays: {child.objects} objects, {child.relationships} relationships, {child.documents} documents.
        </p>
      ))}
    </>
  )
}
