import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plug, Plus } from 'lucide-react'
import { mcpServersQuery } from '~/api/mcp-servers'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ListEnd } from '~/ui/ListEnd'
import { type ListColumn, ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { RelativeTime } from '~/ui/Values'
import { ServerDialog } from './ServerDialog'
import { ServerHealth } from './ServerHealth'

type Server = Schemas['McpServer']
const DIALOGS = ['new'] as const

const COLUMNS: ListColumn<Server>[] = [
  {
    key: 'name',
    head: 'Server',
    cell: (server) => (
      <>
        <Link to="/mcp-servers/$name" params={{ name: server.name }} className="font-medium wrap-anywhere hover:underline">
          {server.name}
        </Link>
        <p className="line-clamp-1 text-xs break-all text-text-2">{server.description || server.url || [server.command, ...(server.args ?? [])].join(' ')}</p>
      </>
    ),
  },
  { key: 'health', head: 'Health', className: 'w-28', cell: (server) => <ServerHealth status={server.status} /> },
  {
    key: 'tools',
    head: 'Tools',
    align: 'end',
    cell: (server) => (
      <span className="inline-flex flex-wrap justify-end gap-1.5">
        {server.heldBack > 0 && <Badge tone="wait">{server.heldBack} held back</Badge>}
        {server.toolCount}
      </span>
    ),
  },
  { key: 'transport', head: 'Transport', from: 'md', cell: (server) => <span className="text-text-2">{server.transport}</span> },
  { key: 'listed', head: 'Last listed', from: 'md', align: 'end', cell: (server) => <RelativeTime at={server.listedAt} className="text-text-2" /> },
]

export function McpServersPage() {
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const servers = useQuery({ ...mcpServersQuery, enabled: allowed, refetchInterval: 15_000 })
  const add = (
    <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={write.reason} onClick={() => open('new')}>
      Add a server
    </Button>
  )
  return (
    <>
      <PageHeader title="MCP servers" description="Programs and services whose tools the agents of this project can use." actions={add} />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see servers.">{reason}</EmptyState>
        ) : (
          <Loaded query={servers} what="The servers could not be loaded.">
            {(page) =>
              page.items.length > 0 ? (
                <>
                  <ListTable label="MCP servers" columns={COLUMNS} rows={page.items} rowKey={(server) => server.id} />
                  <ListEnd page={page} />
                </>
              ) : (
                <EmptyState icon={<Plug aria-hidden size={18} />} title="There is no MCP server yet." action={add}>
                  Add one by its address or as a program that is started here. Its tools are pinned as they are first listed; later changes wait until you accept them.
                </EmptyState>
              )
            }
          </Loaded>
        )}
      </Panel>
      {dialog && <ServerDialog disabledReason={write.reason} onClose={close} />}
    </>
  )
}
