import { useQuery } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { Fragment } from 'react'
import { budgetsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { formatCompact, formatMoney } from '~/util/format'
import { LimitDialog, type Row } from './LimitDialog'

const rowsOf = (data: Schemas['Budgets']): Row[] => [data.project, ...data.agents]
const DIALOGS = ['new', 'change'] as const

export function BudgetsPage() {
  const { allowed, reason } = useScope('agents:read')
  const write = useScope('admin:write')
  const { dialog, of, open, close } = useUrlDialog(DIALOGS)
  const budgets = useQuery({ ...budgetsQuery, enabled: allowed })
  const setReason = write.reason ?? reason
  return (
    <>
      <PageHeader title="Budgets" description="The most that the project and its agents may spend in a day (UTC). Runs stop before they cost more." actions={<Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={setReason} onClick={() => open('new')}>Set a limit</Button>} />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see budgets.">{reason}</EmptyState>
        ) : (
          <Loaded query={budgets} what="The budgets could not be loaded.">
            {(data) => (
              <ListTable<Row>
                label="Budgets"
                rows={rowsOf(data)}
                rowKey={(row) => row.agent ?? ''}
                columns={[
                  { key: 'who', head: 'Of', className: 'min-w-20', cell: (row) => <span className="font-medium wrap-anywhere">{row.agent ?? 'The project'}</span> },
                  { key: 'limit', head: 'Limit', cell: (row) => <Amounts {...row.limit} /> },
                  { key: 'spent', head: 'Spent', from: 'sm', below: true, cell: (row) => (row.today ? <Amounts {...row.today.spent} /> : '–') },
                  { key: 'reserved', head: 'Reserved', from: 'md', below: true, cell: (row) => (row.today ? <Amounts {...row.today.reserved} /> : '–') },
                  { key: 'edit', head: <span className="sr-only">Actions</span>, align: 'end', cell: (row) => <Button size="sm" aria-label={`Change the limit of ${row.agent ?? 'the project'}`} disabledReason={write.reason} onClick={() => open('change', row.agent)}>Change…</Button> },
                ]}
              />
            )}
          </Loaded>
        )}
      </Panel>
      {/* A limit takes the place of the one that there is, so that one is shown first. */}
      {dialog && budgets.data && <LimitDialog key={of} rows={rowsOf(budgets.data)} of={of} disabledReason={setReason} onClose={close} />}
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
