import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import type { Agent } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Textarea } from '~/ui/Field'
import { JsonField } from '~/ui/JsonField'
import { NumberField } from '~/ui/NumberField'
import { toast } from '~/ui/toast'
import { jsonText } from '~/util/json'
import { randomKey } from '~/util/random-key'
import { sendOnce } from '~/util/send-once'

const FIELDS = ['input', 'context', 'maxSteps', 'timeoutSeconds', 'maxCostUsd']
type Limits = Record<'maxSteps' | 'timeoutSeconds' | 'maxCostUsd', number | null>

/** Starts an agent with an input, and opens its run. */
export function TriggerDialog({ agent, disabledReason: refused, onClose }: { agent: Agent; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [dialog] = useState(randomKey)
  const [input, setInput] = useState('')
  const [context, setContext] = useState<unknown>()
  const [isBroken, setBroken] = useState(false)
  const [limits, setLimits] = useState<Limits>({ maxSteps: null, timeoutSeconds: null, maxCostUsd: null })
  const start = useMutationOnce({
    mutationFn: () => {
      const request = { input, ...(context === undefined ? {} : { context }), ...limits }
      return sendOnce(`${dialog} ${jsonText(request)}`, request, (body, key) => unwrap(api.POST('/api/admin/agents/{agentId}/trigger', { params: { path: { agentId: agent.id }, header: { 'Idempotency-Key': key } }, body })))
    },
    onSuccess: ({ runId }) => {
      toast(`${agent.name} was started.`)
      void client.invalidateQueries({ queryKey: keys.runs })
      void navigate({ to: '/runs/$runId', params: { runId }, replace: true })
    },
  })
  const disabledReason = refused ?? (!input.trim() ? 'Say what the agent has to do.' : isBroken ? 'Correct the JSON first.' : undefined)
  const limit = (name: keyof typeof limits, label: string) => (
    <NumberField label={label} problem={problemAt(start.error, name)} whole={name !== 'maxCostUsd'} value={limits[name]} onChange={(value) => setLimits({ ...limits, [name]: value })} />
  )
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => start.mutate()}
      title={`Trigger ${agent.name}`}
      description="It starts at once. You see its run as it works."
      footer={
        <>
          <Button onClick={onClose}>Do not start</Button>
          <Button variant="primary" busy={start.isPending} disabledReason={disabledReason} type="submit">
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
