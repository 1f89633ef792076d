import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import type { Agent } from '~/api/types'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Textarea } from '~/ui/Field'
import { JsonField } from '~/ui/JsonField'
import { toast } from '~/ui/toast'
import { randomKey } from '~/util/random-key'
import { asNumber } from '../agents/numbers'

const FIELDS = ['input', 'context', 'maxSteps', 'timeoutSeconds', 'maxCostUsd']

/** Starts an agent with an input, and opens its run. */
export function TriggerDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [key, setKey] = useState(randomKey)
  const [input, setInput] = useState('')
  const [context, setContext] = useState<unknown>()
  const [isBroken, setBroken] = useState(false)
  const [limits, setLimits] = useState({ maxSteps: '', timeoutSeconds: '', maxCostUsd: '' })
  const start = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/api/admin/agents/{agentId}/trigger', {
          params: { path: { agentId: agent.id }, header: { 'Idempotency-Key': key } },
          body: { input, ...(context === undefined ? {} : { context }), maxSteps: asNumber(limits.maxSteps), timeoutSeconds: asNumber(limits.timeoutSeconds), maxCostUsd: asNumber(limits.maxCostUsd) },
        }),
      ),
    onSuccess: ({ runId }) => {
      toast(`${agent.name} was started.`)
      void client.invalidateQueries({ queryKey: keys.runs })
      void navigate({ to: '/runs/$runId', params: { runId } })
    },
    // A corrected request is another one.
    onError: () => setKey(randomKey()),
  })
  const disabledReason = !input.trim() ? 'Say what the agent has to do.' : isBroken ? 'Correct the JSON first.' : undefined
  const limit = (name: keyof typeof limits, label: string, hint?: string) => (
    <Field label={label} hint={hint} problem={problemAt(start.error, name)}>
      {(ids) => <Input {...ids} type="number" min="0" step={name === 'maxCostUsd' ? '0.01' : '1'} value={limits[name]} onChange={(event) => setLimits({ ...limits, [name]: event.target.value })} />}
    </Field>
  )
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Trigger ${agent.name}`}
      description="It starts at once. You see its run as it works."
      footer={
        <>
          <Button onClick={onClose}>Do not start</Button>
          <Button variant="primary" busy={start.isPending} disabledReason={disabledReason} onClick={() => start.mutate()}>
            Start the run
          </Button>
        </>
      }
    >
      <div className="grid gap-4">
        <Field label="Input" problem={problemAt(start.error, 'input')} hint="What to do, as the agent reads it.">
          {(ids) => <Textarea {...ids} rows={5} value={input} onChange={(event) => setInput(event.target.value)} />}
        </Field>
        <details className="rounded-md border border-line">
          <summary className="cursor-pointer px-3 py-2 text-sm font-medium">Context and limits of this run</summary>
          <div className="grid gap-4 border-t border-line p-3">
            <JsonField label="Context" hint="Anything else it should know, as JSON." rows={3} value={undefined} onChange={setContext} onBroken={setBroken} problem={problemAt(start.error, 'context')} />
            <div className="grid grid-cols-3 gap-3">
              {limit('maxSteps', 'Most steps')}
              {limit('timeoutSeconds', 'Timeout (s)')}
              {limit('maxCostUsd', 'Most cost ($)')}
            </div>
          </div>
        </details>
      </div>
      <InlineError error={start.error && otherProblem(start.error, FIELDS)} />
    </Dialog>
  )
}
