import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Select, Textarea } from '~/ui/Field'
import { toast } from '~/ui/toast'

export const TASK_ACTIONS = ['retry', 'reassign', 'skip'] as const
type TaskAction = (typeof TASK_ACTIONS)[number]

const TEXTS: Record<TaskAction, { title: string; hint: string; note: string; done: string; verb: string }> = {
  retry: { title: 'Retry', verb: 'Retry', hint: 'The task is tried again with its agent, and what depends on it follows.', note: 'The next attempt reads this.', done: 'is tried again.' },
  reassign: { title: 'Reassign', verb: 'Reassign', hint: 'Another agent does the task from its beginning.', note: 'The next attempt reads this.', done: 'was given to another agent.' },
  skip: { title: 'Skip', verb: 'Skip', hint: 'The task and the tasks that depend on it are skipped. The rest goes on.', note: 'Why it is skipped, for those who read the record.', done: 'was skipped.' },
}

type Task = { id: string; key: string; title: string; agent?: string | null }

/** Retries, reassigns or skips a task, with a note. */
export function TaskDialog({ action, task, workflowId, disabledReason, onClose }: { action: TaskAction; task: Task; workflowId: string; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const [note, setNote] = useState('')
  const [agent, setAgent] = useState('')
  const readsAgents = useScope('agents:read').allowed
  const agents = useQuery({ ...agentsQuery, enabled: readsAgents && action === 'reassign' }).data?.items ?? []
  const texts = TEXTS[action]
  const params = { path: { taskId: task.id } }
  const apply = useMutationOnce({
    mutationFn: () => {
      const words = note.trim() || null
      if (action === 'retry') return unwrap(api.POST('/api/coordination/tasks/{taskId}/retry', { params, body: { note: words } }))
      if (action === 'skip') return unwrap(api.POST('/api/coordination/tasks/{taskId}/skip', { params, body: { reason: words } }))
      return unwrap(api.POST('/api/coordination/tasks/{taskId}/reassign', { params, body: { agent, note: words } }))
    },
    onSuccess: () => {
      toast(`“${task.key}” ${texts.done}`)
      void client.invalidateQueries({ queryKey: keys.workflow(workflowId) })
      void client.invalidateQueries({ queryKey: keys.inbox })
      onClose()
    },
  })
  const others = agents.filter(({ name }) => name !== task.agent)
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => apply.mutate()}
      size="sm"
      title={`${texts.title} “${task.title}”`}
      description={texts.hint}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button variant={action === 'skip' ? 'danger' : 'primary'} busy={apply.isPending} disabledReason={disabledReason ?? (action === 'reassign' && !agent ? 'Choose an agent first.' : undefined)} type="submit">
            {texts.verb} the task
          </Button>
        </>
      }
    >
      <div className="space-y-3">
        {action === 'reassign' && (
          <Field label="Agent" hint={task.agent ? `So far ${task.agent}.` : undefined}>
            {(ids) => <Select {...ids} value={agent} onChange={(event) => setAgent(event.target.value)} options={[{ value: '', label: 'Choose an agent' }, ...others.map(({ name }) => ({ value: name, label: name }))]} />}
          </Field>
        )}
        <Field label={action === 'skip' ? 'Reason' : 'Note'} hint={texts.note}>
          {(ids) => <Textarea {...ids} rows={3} value={note} onChange={(event) => setNote(event.target.value)} />}
        </Field>
      </div>
      <InlineError error={apply.error} />
    </Dialog>
  )
}
