import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import type { Agent, Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { toast } from '~/ui/toast'
import { randomKey } from '~/util/random-key'
import { withoutTrigger } from './trigger-draft'
import type { Trigger } from './triggers'

type Props = { trigger: Trigger; disabledReason: string | undefined; onClose: () => void }

/** Starts what a schedule starts, with its input and limits. The schedule itself goes on as before. */
export function RunNowDialog({ trigger, disabledReason, onClose }: Props) {
  const navigate = useNavigate()
  const [key] = useState(randomKey)
  const schedule = trigger.schedule
  const header = { 'Idempotency-Key': key }
  const start = useMutationOnce({
    mutationFn: async () => {
      if (trigger.dispatch) {
        return unwrap<Schemas['StartedWorkflow']>(api.POST('/api/coordination/dispatch', { params: { header }, body: trigger.dispatch }) as never)
      }
      const body = {
        input: schedule?.input ?? `Do what you do by schedule (${schedule?.cron}). Somebody started you now.`,
        ...(schedule?.context != null && { context: schedule.context }),
        ...(schedule?.maxSteps != null && { maxSteps: schedule.maxSteps }),
        ...(schedule?.timeoutSeconds != null && { timeoutSeconds: schedule.timeoutSeconds }),
      }
      return unwrap(api.POST('/api/admin/agents/{agentId}/trigger', { params: { path: { agentId: trigger.agentId ?? trigger.agentName }, header }, body }))
    },
    onSuccess: (started) => {
      toast(`${trigger.title} was started.`)
      if ('runId' in started) void navigate({ to: '/runs/$runId', params: { runId: started.runId }, replace: true })
      else void navigate({ to: '/workflows/$workflowId', params: { workflowId: started.workflowId }, replace: true })
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => start.mutate()} title={`Run ${trigger.title} now`} action={trigger.dispatch ? 'Start the workflow' : 'Start the run'} busy={start.isPending} error={start.error} disabledReason={disabledReason}>
      <p>It starts with the input and the limits of the schedule. The schedule keeps its next time, and this start is not listed among its firings.</p>
    </ConfirmDialog>
  )
}

/** Deletes the trigger of a workflow, or takes the trigger out of the definition of an agent. */
export function DeleteTriggerDialog({ trigger, agents, disabledReason, onClose }: Props & { agents: Agent[] }) {
  const client = useQueryClient()
  const agent = agents.find((one) => one.id === trigger.agentId)
  const remove = useMutationOnce({
    mutationFn: async () => {
      if (trigger.starts === 'workflow') await unwrap(api.DELETE('/api/admin/triggers/{name}', { params: { path: { name: trigger.title } } }))
      else if (agent) await unwrap(api.PATCH('/api/admin/agents/{agentId}', { params: { path: { agentId: agent.id } }, body: withoutTrigger(agent) }))
    },
    onSuccess: () => {
      toast(`The trigger of ${trigger.title} was deleted.`)
      void client.invalidateQueries({ queryKey: keys.triggers })
      void client.invalidateQueries({ queryKey: keys.agents })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Delete the trigger of ${trigger.title}`} action="Delete the trigger" danger busy={remove.isPending} error={remove.error} disabledReason={disabledReason}>
      <p>
        {trigger.starts === 'workflow' ? 'It fires no more. Workflows that it started go on.' : `${trigger.agentName} stays, and no longer starts by itself. Its runs go on.`}
        {agent?.product && ` An upgrade of ${agent.product} brings the trigger back.`}
      </p>
    </ConfirmDialog>
  )
}
