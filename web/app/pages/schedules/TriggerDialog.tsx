import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { useScope } from '~/api/session'
import type { Agent } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Select, Textarea } from '~/ui/Field'
import { toast } from '~/ui/toast'
import { agentChange, type Draft, draftOf, emptyDraft, workflowTrigger } from './trigger-draft'
import { saveReason, type Trigger } from './triggers'
import { WhenFields } from './WhenFields'
import { WorkflowFields } from './WorkflowFields'

const FIELDS = ['trigger', 'config', 'dispatch', 'description', 'tasks', 'name', 'planner']

/** Creates a trigger, or changes the one that is given. */
export function TriggerDialog({ trigger, when, agents, disabledReason, onClose }: { trigger?: Trigger; when: Draft['when']; agents: Agent[]; disabledReason?: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const [opened] = useState(trigger)
  const [draft, setDraft] = useState<Draft>(() => (trigger ? draftOf(trigger) : emptyDraft(when)))
  const [isBroken, setBroken] = useState(false)
  const lacking = { write: useScope('agents:write').reason, invoke: useScope('agents:invoke').reason }
  const set = (change: Partial<Draft>) => setDraft((known) => ({ ...known, ...change }))
  const agent = agents.find((one) => one.id === draft.agentId)
  const save = useMutationOnce({
    mutationFn: async () => {
      if (draft.starts === 'workflow') await unwrap(api.PUT('/api/admin/triggers/{name}', { params: { path: { name: draft.name.trim() } }, body: workflowTrigger(draft, opened) }))
      else if (agent) await unwrap(api.PATCH('/api/admin/agents/{agentId}', { params: { path: { agentId: agent.id } }, body: agentChange(draft, agent) }))
    },
    onSuccess: () => {
      toast(`The trigger of ${draft.starts === 'workflow' ? draft.name.trim() : agent?.name} was saved.`)
      void client.invalidateQueries({ queryKey: keys.triggers })
      void client.invalidateQueries({ queryKey: keys.agents })
      onClose()
    },
  })
  const missing =
    disabledReason ??
    saveReason(lacking) ??
    (draft.starts === 'agent'
      ? agent ? undefined : 'Choose an agent.'
      : !draft.name.trim() ? 'Give the trigger a name.' : isBroken ? 'Correct the JSON first.' : draft.plan === 'goal' && !draft.goal.trim() ? 'Say what the workflow is to do.' : undefined)
  const candidates = agents.filter((one) => one.visibility !== 'internal')
  const fixed = opened && 'This cannot be changed.'
  const noun = draft.when === 'event' ? 'event trigger' : 'schedule'
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => save.mutate()}
      title={opened ? `Edit the ${noun} of ${opened.title}` : draft.when === 'event' ? 'Create an event trigger' : 'Create a schedule'}
      description={draft.starts === 'agent' && agent?.trigger && !opened ? `${agent.name} has a trigger already (${agent.trigger}). Saving replaces it: an agent has one.` : undefined}
      footer={<><Button onClick={onClose}>Discard</Button><Button variant="primary" busy={save.isPending} disabledReason={missing} type="submit">Save the {noun}</Button></>}
    >
      <div className="grid gap-4">
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label="Starts" hint={fixed}>
            {(ids) => <Select {...ids} disabled={opened !== undefined} value={draft.starts} onChange={(event) => set({ starts: event.target.value as Draft['starts'] })} options={[{ value: 'agent', label: 'An agent' }, { value: 'workflow', label: 'A workflow' }]} />}
          </Field>
          {draft.starts === 'agent' ? (
            <Field label="Agent" hint={fixed} problem={problemAt(save.error, 'name')}>
              {(ids) => <Select {...ids} disabled={opened !== undefined} value={draft.agentId} onChange={(event) => set({ agentId: event.target.value })} options={[{ value: '', label: 'Choose…' }, ...candidates.map((one) => ({ value: one.id, label: one.name }))]} />}
            </Field>
          ) : (
            <Field label="Name" problem={problemAt(save.error, 'name')} hint={fixed ?? 'A name that exists is changed.'}>
              {(ids) => <Input {...ids} disabled={opened !== undefined} value={draft.name} placeholder="weekly-report" onChange={(event) => set({ name: event.target.value })} />}
            </Field>
          )}
        </div>
        <WhenFields draft={draft} set={set} error={save.error} />
        {draft.starts === 'agent' ? (
          <Field label="Input" hint={`What the agent is told. Empty: a sentence about the ${draft.when === 'event' ? 'event' : 'schedule'}.`} problem={problemAt(save.error, 'config.trigger.input')}>
            {(ids) => <Textarea {...ids} rows={3} value={draft.input} onChange={(event) => set({ input: event.target.value })} />}
          </Field>
        ) : (
          <WorkflowFields draft={draft} set={set} error={save.error} onBroken={setBroken} />
        )}
      </div>
      <InlineError error={save.error && otherProblem(save.error, FIELDS)} />
    </Dialog>
  )
}
