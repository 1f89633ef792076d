import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import type { RunFilters } from '~/api/queries'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { ErrorState } from '~/ui/ErrorState'
import { ScrollList } from '~/ui/ScrollList'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'
import { WithCode } from '~/ui/WithCode'
import { formatCount, shortId, words } from '~/util/format'
import { randomKey } from '~/util/random-key'

export type BulkAction = Schemas['BulkRunAction']
type Result = Schemas['BulkRunsResult']

export const VERBS: Record<BulkAction, { verb: string; done: string }> = {
  cancel: { verb: 'Cancel', done: 'cancelled' },
  resume: { verb: 'Resume', done: 'resumed' },
}

/** Asks the server what would happen, shows it, and only then lets a person do it. */
export function BulkDialog({ action, disabledReason, ids, filters, onClose, onDone }: { action: BulkAction; disabledReason: string | undefined; ids: string[]; filters: RunFilters; onClose: () => void; onDone: () => void }) {
  const client = useQueryClient()
  const [key] = useState(randomKey)
  const { parent_run_id: parentRunId, ...rest } = filters
  const chosen = ids.length > 0 ? { ids } : { filter: { ...rest, parentRunId } }
  const { verb, done } = VERBS[action]

  const plan = useQuery({
    queryKey: ['bulk', action, chosen],
    enabled: disabledReason === undefined,
    staleTime: 0,
    gcTime: 0,
    queryFn: ({ signal }) => unwrap(api.POST('/api/admin/runs/bulk', { body: { action, ...chosen, dryRun: true }, signal })),
  })
  const possible = plan.data?.runs.filter((run) => run.outcome === 'possible') ?? []
  const apply = useMutationOnce({
    // The runs that were shown are changed, and no others that match meanwhile.
    mutationFn: () =>
      unwrap(api.POST('/api/admin/runs/bulk', { params: { header: { 'Idempotency-Key': key } }, body: { action, ids: possible.map((run) => run.runId), dryRun: false } })),
    onSuccess: (result) => {
      const changed = result.runs.filter((run) => run.outcome === done).length
      const failed = result.runs.length - changed
      toast(`${formatCount(changed)} ${changed === 1 ? 'run was' : 'runs were'} ${done}.`, failed > 0 ? { description: `${failed} had changed meanwhile and were left as they are.`, kind: 'info' } : {})
      void client.invalidateQueries({ queryKey: keys.runs })
      onDone()
      onClose()
    },
  })
  const count = formatCount(possible.length)
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      onConfirm={() => apply.mutate()}
      title={`${verb} runs`}
      action={plan.data ? `${verb} ${count} ${possible.length === 1 ? 'run' : 'runs'}` : verb}
      danger={action === 'cancel'}
      busy={apply.isPending || plan.isLoading}
      disabledReason={disabledReason ?? (plan.data && possible.length === 0 ? 'There is no run for which this is possible.' : undefined)}
      error={apply.error}
    >
      {disabledReason ? <p>{disabledReason}</p> : plan.error ? <ErrorState error={plan.error} what="The server could not say what would happen." onRetry={() => void plan.refetch()} /> : !plan.data ? <SkeletonRows rows={2} /> : <Plan plan={plan.data} action={action} possible={possible.length} />}
    </ConfirmDialog>
  )
}

function Plan({ plan, action, possible }: { plan: Result; action: BulkAction; possible: number }) {
  const others = plan.runs.filter((run) => run.outcome !== 'possible')
  const isOne = possible === 1
  const text = action === 'cancel' ? `${isOne ? 'It stops at once with the runs below it. What it' : 'They stop at once with the runs below them. What they'} wrote stays; it can be reverted${isOne ? '.' : ' run by run.'}` : `${isOne ? 'It' : 'Each'} continues in a new run from where it stopped.`
  return (
    <>
      <p>
        <strong className="text-text">{formatCount(possible)}</strong> of {formatCount(plan.runs.length)} {plan.runs.length === 1 ? 'run' : 'runs'} can be {VERBS[action].done}. {possible > 0 && text}
      </p>
      {plan.hasMore && <p>More runs match. The newest 1,000 are changed; do it again for the rest.</p>}
      {others.length > 0 && (
        <ScrollList label="Runs that stay as they are" className="max-h-40 space-y-1 text-xs">
          {others.slice(0, 50).map((run) => (
            <li key={run.runId}>
              <code className="font-mono text-text">{shortId(run.runId)}</code> {run.agentName}: <WithCode text={run.message ?? words(run.outcome)} />
            </li>
          ))}
        </ScrollList>
      )}
    </>
  )
}
