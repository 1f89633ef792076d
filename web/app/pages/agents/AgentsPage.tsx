import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Bot, Plus } from 'lucide-react'
import { useMemo } from 'react'
import { api, unwrapAll } from '~/api/client'
import { keys } from '~/api/keys'
import { recentRunsQuery, runStatsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Agent, Run, Schemas } from '~/api/types'
import { oneOf, type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
import { FilterBar, FilterSelect, FilterText } from '~/table/FilterBar'
import { Badge, Status } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { Switch } from '~/ui/Field'
import { ListEnd } from '~/ui/ListEnd'
import { type ListColumn, ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { RelativeTime } from '~/ui/Values'
import { useActions } from '~/util/actions'
import { capitalised } from '~/util/format'
import { CreateAgentDialog } from './CreateAgentDialog'
import { modelName, successRate } from './agent-facts'

const VISIBILITIES = ['external', 'project', 'internal'] as const
const parse = (raw: RawSearch) => ({
  q: raw.q || undefined,
  visibility: oneOf(VISIBILITIES, raw.visibility),
  internal: oneOf(['true'], raw.internal),
})
const DIALOGS = ['new'] as const

export function AgentsPage() {
  const [search, change] = useUrlState(parse)
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const { allowed, reason } = useScope('agents:read')
  const write = useScope('agents:write')
  const readsRuns = useScope('admin:read').allowed
  const withInternal = search.internal === 'true' || search.visibility === 'internal'
  const agents = useQuery({
    queryKey: [...keys.agents, 'page', withInternal],
    enabled: allowed,
    queryFn: ({ signal }) => unwrapAll((cursor) => api.GET('/api/admin/agents', { params: { query: { limit: 100, cursor, include_internal: withInternal } }, signal })),
  })
  const stats = useQuery({ ...runStatsQuery, enabled: readsRuns }).data
  const recent = useQuery({ ...recentRunsQuery({}, 100), enabled: readsRuns }).data
  const columns = useMemo(() => agentColumns(stats, recent?.items ?? []), [stats, recent])
  useActions(useMemo(() => [{ id: 'agents-new', label: 'Create an agent…', group: 'On this page', disabledReason: write.reason, run: () => open('new') }], [open, write.reason]))
  const create = (
    <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={write.reason} onClick={() => open('new')}>
      Create an agent
    </Button>
  )
  const isFiltered = search.q !== undefined || search.visibility !== undefined
  return (
    <>
      <PageHeader title="Agents" description="Who works in this project, with which model and which tools." actions={create} />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see agents.">{reason}</EmptyState>
        ) : (
          <>
            <FilterBar isFiltered={isFiltered} onClear={() => change({ q: '', visibility: '' })}>
              <FilterText label="Search the agents" placeholder="Name or description" value={search.q} onChange={(q) => change({ q })} />
              <FilterSelect label="Visibility" value={search.visibility} options={VISIBILITIES.map((value) => ({ value, label: capitalised(value) }))} onChange={(visibility) => change({ visibility })} />
              <Switch label={<span className="text-xs text-text-2">With internal ones</span>} checked={withInternal} onChange={(on) => change({ internal: on ? 'true' : undefined })} />
            </FilterBar>
            <Loaded query={agents} what="The agents could not be loaded.">
              {(page) => {
                const rows = page.items.filter((agent) => matches(agent, search.q) && (!search.visibility || agent.visibility === search.visibility))
                if (rows.length > 0) return <><ListTable label="Agents" columns={columns} rows={rows} rowKey={(agent) => agent.id} /><ListEnd page={page} /></>
                return isFiltered ? (
                  <EmptyState title="No agent matches these filters." action={<Button onClick={() => change({ q: '', visibility: '' })}>Clear the filters</Button>} />
                ) : (
                  <EmptyState icon={<Bot aria-hidden size={18} />} title="There is no agent yet." action={create}>
                    An agent is a prompt, a model and tools. <Link to="/products" className="underline">Products</Link> bring agents that are ready to use.
                  </EmptyState>
                )
              }}
            </Loaded>
          </>
        )}
      </Panel>
      {dialog && <CreateAgentDialog onClose={close} />}
    </>
  )
}

const matches = (agent: Agent, q: string | undefined) => !q || `${agent.name} ${agent.description}`.toLowerCase().includes(q.toLowerCase())

function agentColumns(stats: Schemas['RunStats'] | undefined, recent: Run[]): ListColumn<Agent>[] {
  const last = new Map<string, Run>()
  for (const run of recent) if (!last.has(run.agentName)) last.set(run.agentName, run)
  return [
    {
      key: 'name',
      head: 'Agent',
      className: 'max-w-100',
      cell: (agent) => (
        <>
          <Link to="/agents/$agentId" params={{ agentId: agent.name }} className="font-medium wrap-anywhere hover:underline">
            {agent.name}
          </Link>
          {agent.isDefault && <span className="ml-2"><Badge>Default</Badge></span>}
          <p className="line-clamp-1 text-xs text-text-2">{agent.description}</p>
        </>
      ),
    },
    { key: 'model', head: 'Model', from: 'md', className: 'text-text-2 font-mono text-xs', cell: (agent) => modelName(agent.model) },
    { key: 'visibility', head: 'Visibility', from: 'lg', cell: (agent) => <span className="text-text-2">{capitalised(agent.visibility)}</span> },
    { key: 'tools', head: 'Tools', from: 'sm', align: 'end', cell: (agent) => <span title={agent.tools.join(', ') || 'none'}>{agent.tools.length}</span> },
    {
      key: 'rate',
      head: 'Last 24 h',
      from: 'lg',
      align: 'end',
      cell: (agent) => {
        const rate = successRate(stats?.byAgent.find((one) => one.agentId === agent.id))
        return rate ? <span title={rate.detail}>{rate.text}</span> : <span className="text-text-3">–</span>
      },
    },
    {
      key: 'last',
      head: 'Last run',
      align: 'end',
      className: 'whitespace-nowrap',
      cell: (agent) => {
        const run = last.get(agent.name)
        if (!run) return <span className="text-text-3" title="None of the newest 100 runs">–</span>
        return (
          <Link to="/runs/$runId" params={{ runId: run.id }} className="inline-flex flex-wrap items-center justify-end gap-x-2 gap-y-1 hover:underline">
            <Status status={run.status} />
            <RelativeTime at={run.createdAt} className="text-xs text-text-2" />
          </Link>
        )
      },
    },
  ]
}
