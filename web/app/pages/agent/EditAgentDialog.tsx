import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem } from '~/api/problems'
import { useScope } from '~/api/session'
import type { Agent } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { toast } from '~/ui/toast'
import { changesBetween, draftOf, FIELDS, whyNotSaved } from '../agents/agent-draft'
import { AgentForm } from '../agents/AgentForm'
import { withField } from '../agents/CreateAgentDialog'
import { useTakenNames } from '../agents/taken-names'

/** Changes what was changed in the form, if nobody else changed the agent meanwhile. */
export function EditAgentDialog({ agent, disabledReason: refused, onClose }: { agent: Agent; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  // The version that is edited stays the one that was opened, also when events bring a newer one.
  const [opened] = useState(agent)
  const [draft, setDraft] = useState(() => draftOf(agent))
  const [broken, setBroken] = useState<ReadonlySet<string>>(new Set())
  const readsTools = useScope('agents:read').allowed
  const taken = useTakenNames(agent)
  const changes = changesBetween(draftOf(opened), draft)
  const count = Object.keys(changes).length
  const save = useMutationOnce({
    mutationFn: () => unwrap(api.PATCH('/api/admin/agents/{agentId}', { params: { path: { agentId: opened.id } }, body: { ...changes, expectedVersion: opened.version } })),
    onSuccess: (saved) => {
      toast(`${saved.name} is now at version ${saved.version}.`)
      void client.invalidateQueries({ queryKey: keys.agents })
      void client.invalidateQueries({ queryKey: ['agent'] })
      if (saved.name === opened.name) onClose()
      else void navigate({ to: '/agents/$agentId', params: { agentId: saved.name }, replace: true })
    },
  })
  const disabledReason = refused ?? whyNotSaved(draft, broken, taken) ?? (count === 0 ? 'Nothing was changed yet.' : undefined)
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => save.mutate()}
      size="lg"
      title={`Edit ${opened.name}`}
      description={opened.product ? `The product ${opened.product} brought this agent: an upgrade overwrites your changes, and says so first.` : 'Runs that are active keep the version they started with.'}
      footer={
        <>
          <Button onClick={onClose}>Discard</Button>
          <Button variant="primary" busy={save.isPending} disabledReason={disabledReason} type="submit">
            Save {count > 0 && `${count} ${count === 1 ? 'change' : 'changes'}`}
          </Button>
        </>
      }
    >
      <AgentForm draft={draft} onChange={setDraft} error={save.error} readsTools={readsTools} taken={taken} isBroken={broken.size > 0} onBroken={(field, is) => setBroken((known) => withField(known, field, is))} />
      <InlineError error={save.error && otherProblem(save.error, FIELDS)} />
    </Dialog>
  )
}
