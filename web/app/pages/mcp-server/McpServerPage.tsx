import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { Pencil, Power, RefreshCw, Trash2 } from 'lucide-react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { mcpServerQuery } from '~/api/mcp-servers'
import { useScope } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
import { Breakable } from '~/ui/Breakable'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { EmptyState } from '~/ui/EmptyState'
import { InlineError } from '~/ui/ErrorState'
import { KeyValue } from '~/ui/KeyValue'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { toast } from '~/ui/toast'
import { RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { formatDuration } from '~/util/format'
import { ServerDialog } from '../mcp-servers/ServerDialog'
import { ServerHealth } from '../mcp-servers/ServerHealth'
import { pairsText } from '../mcp-servers/server-draft'
import { ServerTools } from './ServerTools'

const route = getRouteApi('/mcp-servers/$name')
const parse = (raw: RawSearch) => ({ tool: raw.tool })
const DIALOGS = ['edit', 'remove'] as const
const POLICIES = { pin: 'Held back until somebody accepts it', warn: 'Offered, with a warning', off: 'Offered' }

export function McpServerPage() {
  const { name } = route.useParams()
  const [search, change] = useUrlState(parse)
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const client = useQueryClient()
  const navigate = useNavigate()
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const server = useQuery({ ...mcpServerQuery(name), enabled: allowed, refetchInterval: 15_000 })
  const { data } = server
  const path = { id: data?.id ?? '' }
  const unknown = data ? undefined : 'The server is not known yet.'
  const refresh = () => {
    void client.invalidateQueries({ queryKey: ['mcp-server'] })
    void client.invalidateQueries({ queryKey: keys.mcpServers })
    void client.invalidateQueries({ queryKey: keys.tools })
  }
  const inspect = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/admin/mcp-servers/{id}/inspect', { params: { path } })),
    onSuccess: (found) => {
      toast(found.reachable ? `${name} answered in ${formatDuration(found.durationMs)} and has ${found.tools.length} tools.` : `${name} could not be reached.`, found.reachable ? {} : { kind: 'failed', description: found.error ?? '' })
      refresh()
    },
  })
  const toggle = useMutationOnce({
    mutationFn: (enabled: boolean) => unwrap(api.PATCH('/api/admin/mcp-servers/{id}', { params: { path }, body: { enabled } })),
    onSuccess: (saved) => {
      toast(`${name} is now ${saved.enabled ? 'enabled' : 'disabled'}.`)
      refresh()
    },
  })
  const remove = useMutationOnce({
    mutationFn: () => unwrap(api.DELETE('/api/admin/mcp-servers/{id}', { params: { path } })),
    onSuccess: () => {
      toast(`The server ${name} was removed.`)
      void navigate({ to: '/mcp-servers', replace: true })
      void client.invalidateQueries({ queryKey: keys.mcpServers })
    },
  })
  const productReason = data?.product ? `It belongs to the product ${data.product} and is removed with it.` : undefined
  const editReason = write.reason ?? unknown
  const removeReason = editReason ?? productReason
  return (
    <>
      <PageHeader
        title={name}
        heading={<span className="flex flex-wrap items-center gap-2"><span className="min-w-0">{name}</span>{data && <ServerHealth status={data.status} />}</span>}
        description={data?.description}
        above={<Link to="/mcp-servers" className="hover:underline">MCP servers</Link>}
        actions={
          <>
            <Button icon={<Trash2 aria-hidden size={14} />} disabledReason={removeReason} onClick={() => open('remove')}>Remove…</Button>
            <Button icon={<Power aria-hidden size={14} />} disabledReason={editReason} busy={toggle.isPending} onClick={() => toggle.mutate(!data?.enabled)}>{data?.enabled === false ? 'Enable' : 'Disable'}</Button>
            <Button icon={<Pencil aria-hidden size={14} />} disabledReason={editReason} onClick={() => open('edit')}>Edit…</Button>
            <Button variant="primary" icon={<RefreshCw aria-hidden size={14} />} disabledReason={write.reason ?? unknown ?? (data?.enabled === false ? 'Enable the server first.' : undefined)} busy={inspect.isPending} onClick={() => inspect.mutate()}>Inspect</Button>
          </>
        }
      />
      {!allowed ? (
        <EmptyState title="You cannot see servers.">{reason}</EmptyState>
      ) : (
        <Loaded query={server} what="The server could not be loaded.">
          {(one) => (
            <div className="grid items-start gap-4 xl:grid-cols-[3fr_2fr]">
              <ServerTools server={one} chosen={search.tool} onChoose={(tool) => change({ tool })} onChanged={refresh} />
              <Card title="Settings">
                {one.lastError && <p className="mb-3 rounded-md bg-fail-soft px-3 py-2 text-sm break-words text-fail">The last contact failed: <WithCode text={one.lastError} />{one.leftAloneUntil && <> It is tried again <RelativeTime at={one.leftAloneUntil} />.</>}</p>}
                <KeyValue
                  items={[
                    ['Transport', one.transport],
                    ['Address', one.url ? <code key="u" className="font-mono text-xs wrap-anywhere"><Breakable text={one.url} /></code> : null],
                    ['Program', one.command ? <code key="p" className="font-mono text-xs wrap-anywhere"><Breakable text={[one.command, ...(one.args ?? [])].join(' ')} /></code> : null],
                    ['Environment', Object.keys(one.env).length > 0 ? <code key="e" className="font-mono text-xs wrap-anywhere whitespace-pre-wrap">{pairsText(one.env, '=')}</code> : null],
                    ['Headers', Object.keys(one.headers ?? {}).length > 0 ? <code key="h" className="font-mono text-xs wrap-anywhere whitespace-pre-wrap">{pairsText(one.headers, ': ')}</code> : null],
                    ['Only these tools', one.toolFilter.includes('*') ? 'All' : one.toolFilter.join(', ') || 'None'],
                    ['Changed tools', POLICIES[one.pinPolicy]],
                    ['New tools', one.trust ? 'Accepted as they come' : 'Held back after the first listing'],
                    ['Timeout', `${one.timeoutSeconds} s`],
                    ['Product', one.product ? <Link key="pr" to="/products/$name" params={{ name: one.product }} className="text-accent-text hover:underline">{one.product}</Link> : null],
                    ['Last listed', <RelativeTime key="l" at={one.listedAt} />],
                  ]}
                />
                <InlineError error={inspect.error ?? toggle.error} />
              </Card>
              {dialog === 'edit' && <ServerDialog server={one} disabledReason={editReason} onClose={close} />}
            </div>
          )}
        </Loaded>
      )}
      <ConfirmDialog open={dialog === 'remove'} onClose={close} onConfirm={() => remove.mutate()} title={`Remove ${name}`} action="Remove the server" danger busy={remove.isPending} error={remove.error} disabledReason={removeReason}>
        <p>Its tools are removed with it. Agents that name them keep running without them.</p>
      </ConfirmDialog>
    </>
  )
}
