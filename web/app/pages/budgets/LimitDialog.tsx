import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { agentsQuery } from '~/api/queries'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Select } from '~/ui/Field'
import { NumberField } from '~/ui/NumberField'
import { toast } from '~/ui/toast'

export type Row = Schemas['DayBudget'] & { agent?: string }

/** The limit of the project or of an agent. The server replaces both amounts, so the one that nobody typed is sent as it is. */
export function LimitDialog({ rows, of, disabledReason, onClose }: { rows: Row[]; of: string | undefined; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const agents = useQuery(agentsQuery).data?.items ?? []
  const [agent, setAgent] = useState(of ?? '')
  // An agent has no row when somebody else takes its limit away meanwhile: what is typed stays.
  const [typed, setTyped] = useState<Row['limit']>({})
  const { usd = null, tokens = null } = { ...rows.find((row) => (row.agent ?? '') === agent)?.limit, ...typed }
  const save = useMutationOnce({
    mutationFn: () => unwrap(api.PUT('/api/coordination/budgets', { body: { agent: agent || null, usd, tokens } })),
    onSuccess: () => {
      toast('The limit was saved.')
      void client.invalidateQueries({ queryKey: keys.budgets })
      onClose()
    },
  })
  const names = [...new Set([...(of ? [of] : []), ...agents.map((one) => one.name)])]
  return (
    <Dialog open onClose={onClose} onSubmit={() => save.mutate()} size="sm" title="Limit of a day" footer={<><Button onClick={onClose}>Discard</Button><Button variant="primary" busy={save.isPending} disabledReason={disabledReason} type="submit">Save the limit</Button></>}>
      <div className="grid gap-4">
        <Field label="Of" problem={problemAt(save.error, 'agent')}>{(ids) => <Select {...ids} value={agent} onChange={(event) => setAgent(event.target.value)} options={[{ value: '', label: 'The project' }, ...names.map((name) => ({ value: name, label: name }))]} />}</Field>
        <NumberField label="US dollars" hint="Empty: no limit in dollars." problem={problemAt(save.error, 'usd')} value={usd} onChange={(next) => setTyped({ ...typed, usd: next })} />
        <NumberField label="Tokens" hint="Empty: no limit in tokens." problem={problemAt(save.error, 'tokens')} whole value={tokens} onChange={(next) => setTyped({ ...typed, tokens: next })} />
      </div>
      <InlineError error={save.error && otherProblem(save.error, ['agent', 'usd', 'tokens'])} />
    </Dialog>
  )
}
