import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem } from '~/api/problems'
import { useScope } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { toast } from '~/ui/toast'
import { EMPTY, FIELDS, whyNotSaved } from './agent-draft'
import { AgentForm } from './AgentForm'
import { useTakenNames } from './taken-names'

export function CreateAgentDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [draft, setDraft] = useState(EMPTY)
  const [broken, setBroken] = useState<ReadonlySet<string>>(new Set())
  const readsTools = useScope('agents:read').allowed
  const write = useScope('agents:write')
  const taken = useTakenNames()
  const create = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/admin/agents', { body: draft })),
    onSuccess: (agent) => {
      toast(`The agent ${agent.name} was created.`)
      void client.invalidateQueries({ queryKey: keys.agents })
      // Back leads to the list, and not to an empty form.
      void navigate({ to: '/agents/$agentId', params: { agentId: agent.name }, replace: true })
    },
  })
  const disabledReason = write.reason ?? whyNotSaved(draft, broken, create.isSuccess ? [] : taken)
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => create.mutate()}
      size="lg"
      title="Create an agent"
      description="A name is enough to begin. Everything can be changed later, and every version is kept."
      footer={
        <>
          <Button onClick={onClose}>Discard</Button>
          <Button variant="primary" busy={create.isPending} disabledReason={disabledReason} type="submit">
            Create the agent
          </Button>
        </>
      }
    >
      <AgentForm draft={draft} onChange={setDraft} error={create.error} readsTools={readsTools} taken={create.isSuccess ? [] : taken} isBroken={broken.size > 0} onBroken={(field, is) => setBroken((known) => withField(known, field, is))} />
      <InlineError error={create.error && otherProblem(create.error, FIELDS)} />
    </Dialog>
  )
}

/** The fields whose text is no JSON now. */
export function withField(known: ReadonlySet<string>, field: string, isIn: boolean): ReadonlySet<string> {
  const next = new Set(known)
  if (isIn) next.add(field)
  else next.delete(field)
  return next
}
