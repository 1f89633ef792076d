import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Field, Textarea } from '~/ui/Field'
import { toast } from '~/ui/toast'
import { randomKey } from '~/util/random-key'
import type { RunDetail } from './run-queries'

export function ResumeDialog({ run, disabledReason, onClose }: { run: RunDetail; disabledReason: string | undefined; onClose: () => void }) {
  const [input, setInput] = useState('')
  const [key] = useState(randomKey)
  const client = useQueryClient()
  const navigate = useNavigate()
  const resume = useMutationOnce({
    mutationFn: () =>
      unwrap(
        api.POST('/api/admin/agents/{agentId}/runs/{runId}/resume', {
          params: { path: { agentId: run.agentId, runId: run.id }, header: { 'Idempotency-Key': key } },
          body: input.trim() ? { input: input.trim() } : {},
        }),
      ),
    onSuccess: (started) => {
      toast('The run goes on in a new run.')
      void client.invalidateQueries({ queryKey: keys.run(run.id) })
      onClose()
      void navigate({ to: '/runs/$runId', params: { runId: started.runId }, replace: true })
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => resume.mutate()} title="Resume this run" action="Resume the run" busy={resume.isPending} disabledReason={disabledReason} error={resume.error}>
      <p>A new run goes on with the same conversation, and has its full number of steps again. It uses the current version of the agent.</p>
      <Field label="What to tell the agent" hint="Without it, the agent is told to go on.">
        {(ids) => <Textarea {...ids} rows={3} value={input} onChange={(event) => setInput(event.target.value)} />}
      </Field>
    </ConfirmDialog>
  )
}
