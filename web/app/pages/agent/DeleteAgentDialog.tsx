import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import type { Agent } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { toast } from '~/ui/toast'

export function DeleteAgentDialog({ agent, disabledReason, onClose }: { agent: Agent; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutationOnce({
    mutationFn: () => unwrap(api.DELETE('/api/admin/agents/{agentId}', { params: { path: { agentId: agent.id } } })),
    onSuccess: () => {
      toast(`The agent ${agent.name} was deleted.`)
      void navigate({ to: '/agents', replace: true })
      void client.invalidateQueries({ queryKey: keys.agents })
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Delete ${agent.name}`} action="Delete the agent" danger busy={remove.isPending} error={remove.error} disabledReason={disabledReason}>
      <p>It can no longer be started. Its runs stay readable, runs that are queued still start, and the versions of its definition are kept.</p>
    </ConfirmDialog>
  )
}
