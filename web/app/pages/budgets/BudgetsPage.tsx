import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { Fragment, useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { agentsQuery, budgetsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { EmptyState } from '~/ui/EmptyState'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Select } from '~/ui/Field'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { toast } from '~/ui/toast'
import { formatCompact, formatMoney } from '~/util/format'

type Row = Schemas['DayBudget'] & { agent?: string }

export function BudgetsPage() {
  const { allowed, reason } = useScope('agents:read')
  const write = useScope('admin:write')
  const [editing, setEditing] = useState<Row>()
  const budgets = useQuery({ ...budgetsQuery, enabled: allowed })
  return (
    <>
      <PageHeader title="Budgets" description="The most that the project and its agents may spend in a day (UTC). Runs stop before they cost more." actions={<Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={write.reason} onClick={() => setEditing({ limit: {} })}>Set a limit</Button>} />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see budgets.">{reason}</EmptyState>
        ) : (
          <Loaded query={budgets} what="The budgets could not be loaded.">
            {(data) => (
              <ListTable<Row>
                label="Budgets"
                rows={[data.project, ...data.agents]}
                rowKey={(row) => row.agent ?? ''}
                columns={[
                  { key: 'who', head: 'Of', className: 'min-w-20', cell: (row) => <span className="font-medium wrap-anywhere">{row.agent ?? 'The project'}</span> },
                  { key: 'limit', head: 'Limit', cell: (row) => <Amounts {...row.limit} /> },
                  { key: 'spent', head: 'Spent', from: 'sm', below: true, cell: (row) => (row.today ? <Amounts {...row.today.spent} /> : '–') },
                  { key: 'reserved', head: 'Reserved', from: 'md', below: true, cell: (row) => (row.today ? <Amounts {...row.today.reserved} /> : '–') },
                  { key: 'edit', head: <span className="sr-only">Actions</span>, align: 'end', cell: (row) => <Button size="sm" aria-label={`Change the limit of ${row.agent ?? 'the project'}`} disabledReason={write.reason} onClick={() => setEditing(row)}>Change…</Button> },
                ]}
              />
            )}
          </Loaded>
        )}
      </Panel>
      {editing && <LimitDialog row={editing} onClose={() => setEditing(undefined)} />}
    </>
  )
}

/** Dollars and tokens, those that there are. They wrap between, not within. */
function Amounts({ usd, tokens }: { usd?: number | null; tokens?: number | null }) {
  const parts = [usd != null && formatMoney(usd), tokens != null && `${formatCompact(tokens)} tokens`].filter((part) => part !== false)
  if (parts.length === 0) return 'None'
  return parts.map((part, index) => (
    <Fragment key={part}>
      {index > 0 && ', '}
      <span className="whitespace-nowrap">{part}</span>
    </Fragment>
  ))
}

function LimitDialog({ row, onClose }: { row: Row; onClose: () => void }) {
  const client = useQueryClient()
  const agents = useQuery(agentsQuery).data?.items ?? []
  const [agent, setAgent] = useState(row.agent ?? '')
  const [usd, setUsd] = useState(row.limit.usd == null ? '' : String(row.limit.usd))
  const [tokens, setTokens] = useState(row.limit.tokens == null ? '' : String(row.limit.tokens))
  const save = useMutation({
    mutationFn: () => unwrap(api.PUT('/api/coordination/budgets', { body: { agent: agent || null, usd: usd === '' ? null : Number(usd), tokens: tokens === '' ? null : Number(tokens) } })),
    onSuccess: () => {
      toast('The limit was saved.')
      void client.invalidateQueries({ queryKey: keys.budgets })
      onClose()
    },
  })
  const names = [...new Set([...(row.agent ? [row.agent] : []), ...agents.map((one) => one.name)])]
  return (
    <Dialog open onClose={onClose} size="sm" title="Limit of a day" footer={<><Button onClick={onClose}>Discard</Button><Button variant="primary" busy={save.isPending} onClick={() => save.mutate()}>Save the limit</Button></>}>
      <div className="grid gap-4">
        <Field label="Of" problem={problemAt(save.error, 'agent')}>{(ids) => <Select {...ids} value={agent} onChange={(event) => setAgent(event.target.value)} options={[{ value: '', label: 'The project' }, ...names.map((name) => ({ value: name, label: name }))]} />}</Field>
        <Field label="US dollars" hint="Empty: no limit in dollars." problem={problemAt(save.error, 'usd')}>{(ids) => <Input {...ids} type="number" min="0" step="0.01" value={usd} onChange={(event) => setUsd(event.target.value)} />}</Field>
        <Field label="Tokens" hint="Empty: no limit in tokens." problem={problemAt(save.error, 'tokens')}>{(ids) => <Input {...ids} type="number" min="0" value={tokens} onChange={(event) => setTokens(event.target.value)} />}</Field>
      </div>
      <InlineError error={save.error && otherProblem(save.error, ['agent', 'usd', 'tokens'])} />
    </Dialog>
  )
}
