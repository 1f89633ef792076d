import { useQueryClient } from '@tanstack/react-query'
import { api, unwrap } from '~/api/client'
import { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import type { Schemas } from '~/api/types'
import { forgetDrafts } from '~/hooks/use-draft'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { toast } from '~/ui/toast'
import { type Item, isCall } from './inbox-state'

export type Decision = Schemas['DecideApproval']

/** Whether somebody else decided first. */
export const wasDecided = (error: unknown): error is ApiError => error instanceof ApiError && error.status === 409 && error.code === 'already_decided'

/** What the API says about each field of a decision that it refused. */
export function problemsOf(error: unknown): Record<string, string> {
  if (!(error instanceof ApiError) || error.status !== 400 || !Array.isArray(error.details)) return {}
  const problems: Record<string, string> = {}
  for (const { field, reason } of error.details as { field?: string; reason?: string }[]) {
    if (!field || !reason) continue
    const name = field.split(/[./[]/, 1)[0]!
    const rest = field.slice(name.length).replace(/^[./]/, '')
    problems[name] = [problems[name], rest ? `${rest} ${reason}` : reason].filter(Boolean).join('; ')
  }
  return problems
}

/** Decides an item, and says what was done. `onLost` is called if somebody else was first. */
export function useDecide(item: Item, onDecided: () => void, onLost?: (error: ApiError) => void) {
  const client = useQueryClient()
  return useMutationOnce({
    mutationFn: (decision: Decision & { told: string }) => {
      const { told: _told, ...body } = decision
      return unwrap(api.POST('/api/approvals/{approvalId}/decide', { params: { path: { approvalId: item.id } }, body: isCall(item) ? { ...body, digest: item.digest } : body }))
    },
    onSuccess: (decided, { told }) => {
      forgetDrafts(item.id)
      toast(told, { description: item.title.slice(0, 120) })
      client.setQueryData(keys.inboxItem(item.id), decided)
      void client.invalidateQueries({ queryKey: keys.inbox })
      if (isCall(item)) void client.invalidateQueries({ queryKey: keys.run(item.runId) })
      else void client.invalidateQueries({ queryKey: keys.workflows })
      onDecided()
    },
    onError: (error) => {
      if (!wasDecided(error)) return
      for (const queryKey of [keys.inboxItem(item.id), keys.inbox]) void client.invalidateQueries({ queryKey })
      onLost?.(error)
    },
  })
}

export type Decide = ReturnType<typeof useDecide>
