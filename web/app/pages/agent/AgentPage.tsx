import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { Pencil, Play, Trash2 } from 'lucide-react'
import { useMemo } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { oneOf, type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Tabs } from '~/ui/Tabs'
import { useActions } from '~/util/actions'
import { AgentRuns } from './AgentRuns'
import { AgentVersions } from './AgentVersions'
import { Definition } from './Definition'
import { DeleteAgentDialog } from './DeleteAgentDialog'
import { EditAgentDialog } from './EditAgentDialog'
import { TriggerDialog } from './TriggerDialog'

const route = getRouteApi('/agents/$agentId')
const TABS = ['definition', 'versions', 'runs'] as const
const parse = (raw: RawSearch) => ({ tab: oneOf(TABS, raw.tab) ?? 'definition', version: raw.version })
const DIALOGS = ['trigger', 'edit', 'delete'] as const

export function AgentPage() {
  const { agentId } = route.useParams()
  const [search, change] = useUrlState(parse)
  const { allowed, reason } = useScope('agents:read')
  const write = useScope('agents:write')
  const invoke = useScope('agents:invoke')
  const agent = useQuery({
    queryKey: keys.agent(agentId),
    enabled: allowed,
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/agents/{agentId}', { params: { path: { agentId } }, signal })),
  })
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const { data } = agent
  const missing = reason ?? (data ? undefined : 'The agent is not loaded.')
  const editReason = missing ?? write.reason
  const triggerReason = missing ?? invoke.reason ?? (data?.visibility === 'internal' ? 'An internal agent is started only by other agents.' : undefined)
  useActions(
    useMemo(
      () => [
        { id: 'agent-trigger', label: 'Trigger this agent…', group: 'On this page', disabledReason: triggerReason, run: () => open('trigger') },
        { id: 'agent-edit', label: 'Edit this agent…', group: 'On this page', disabledReason: editReason, run: () => open('edit') },
      ],
      [open, triggerReason, editReason],
    ),
  )
  const productReason = data?.product ? `It belongs to the product ${data.product}. Uninstall the product to remove it.` : undefined
  const deleteReason = editReason ?? productReason
  return (
    <>
      <PageHeader
        title={data?.name ?? 'Agent'}
        heading={
          <span className="flex flex-wrap items-center gap-2">
            <span className="min-w-0">{data?.name ?? agentId}</span>
            {data?.isDefault && <Badge>Default</Badge>}
            {data && <Badge>{data.visibility}</Badge>}
          </span>
        }
        description={data?.description}
        above={<Link to="/agents" className="hover:underline">Agents</Link>}
        actions={
          <>
            <Button icon={<Trash2 aria-hidden size={14} />} disabledReason={deleteReason} onClick={() => open('delete')}>
              Delete…
            </Button>
            <Button icon={<Pencil aria-hidden size={14} />} disabledReason={editReason} onClick={() => open('edit')}>
              Edit…
            </Button>
            <Button variant="primary" icon={<Play aria-hidden size={14} />} disabledReason={triggerReason} onClick={() => open('trigger')}>
              Trigger…
            </Button>
          </>
        }
      />
      {!allowed ? (
        <EmptyState title="You cannot see agents.">{reason}</EmptyState>
      ) : (
        <Loaded query={agent} what="The agent could not be loaded.">
          {(one) => (
            <>
              <Tabs
                label="Parts of the agent"
                value={search.tab}
                onChange={(tab) => change({ tab: tab === 'definition' ? '' : tab, version: '' })}
                tabs={[
                  { key: 'definition', label: 'Definition', panel: <Definition agent={one} /> },
                  { key: 'versions', label: 'Versions', count: one.version, panel: search.tab === 'versions' && <AgentVersions agentId={agentId} chosen={search.version} onChoose={(version) => change({ version })} /> },
                  { key: 'runs', label: 'Runs', panel: search.tab === 'runs' && <AgentRuns agent={one.name} /> },
                ]}
              />
              {dialog === 'trigger' && <TriggerDialog agent={one} disabledReason={triggerReason} onClose={close} />}
              {dialog === 'edit' && <EditAgentDialog agent={one} disabledReason={editReason} onClose={close} />}
              {dialog === 'delete' && <DeleteAgentDialog agent={one} disabledReason={deleteReason} onClose={close} />}
            </>
          )}
        </Loaded>
      )}
    </>
  )
}
