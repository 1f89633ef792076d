import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { mcpServersQuery } from '~/api/mcp-servers'
import { toolsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { FilterBar, FilterSelect, FilterText } from '~/table/FilterBar'
import { Badge, type Tone } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { EmptyState } from '~/ui/EmptyState'
import { JsonView } from '~/ui/JsonView'
import { KeyValue } from '~/ui/KeyValue'
import { type ListColumn, ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { WithCode } from '~/ui/WithCode'
import { capitalised, formatCount } from '~/util/format'
import { ToolPinning } from './ToolPinning'

type Tool = Schemas['Tool']
const EFFECTS: Record<Tool['effect'], Tone> = { reads: 'ok', writes: 'run', destroys: 'fail', external: 'warn', coordinates: 'pause' }
const parse = (raw: RawSearch) => ({ q: raw.q || undefined, source: oneOf(['builtin', 'mcp'], raw.source), effect: oneOf(Object.keys(EFFECTS), raw.effect), tool: raw.tool })

const idOf = (tool: Tool) => tool.qualifiedName ?? tool.name

export function ToolsPage() {
  const [search, change] = useUrlState(parse)
  const { allowed, reason } = useScope('agents:read')
  const tools = useQuery({ ...toolsQuery, enabled: allowed })
  const readsServers = useScope('admin:read').allowed
  const servers = useQuery({ ...mcpServersQuery, enabled: readsServers })
  const policies = servers.data && new Map(servers.data.items.map((server) => [server.name, server.pinPolicy]))
  const chosen = tools.data?.find((tool) => idOf(tool) === search.tool)
  const isFiltered = Boolean(search.q ?? search.source ?? search.effect)
  const columns: ListColumn<Tool>[] = [
    {
      key: 'name',
      head: 'Tool',
      cell: (tool) => (
        <>
          <button type="button" onClick={() => change({ tool: idOf(tool) }, { push: true })} className="text-left font-mono text-xs font-medium wrap-anywhere hover:underline">
            {tool.conflict ? idOf(tool) : tool.name}
          </button>
          <p className="mt-0.5 line-clamp-1 text-xs text-text-2"><WithCode text={tool.description} /></p>
        </>
      ),
    },
    { key: 'effect', head: 'Effect', className: 'w-28', cell: (tool) => <Badge tone={EFFECTS[tool.effect]}>{capitalised(tool.effect)}</Badge> },
    { key: 'source', head: 'Source', from: 'sm', className: 'w-40', cell: (tool) => <><Source tool={tool} /> <Pinned policy={policies?.get(tool.server ?? '')} /></> },
    { key: 'scope', head: 'Scope', from: 'lg', className: 'w-36', cell: (tool) => <code className="font-mono text-xs text-text-2">{tool.scope ?? '–'}</code> },
  ]
  return (
    <>
      <PageHeader title="Tools" description="What agents can do. An agent gets the tools that its definition names." />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see tools.">{reason}</EmptyState>
        ) : (
          <Loaded query={tools} what="The tools could not be loaded." rows={10}>
            {(items) => {
              const q = search.q?.toLowerCase()
              const rows = items.filter((tool) => (!q || [tool.name, tool.calledAs, tool.description, ...tool.aliases].join(' ').toLowerCase().includes(q)) && (!search.source || tool.source === search.source) && (!search.effect || tool.effect === search.effect))
              const clear = () => change({ q: '', source: '', effect: '' })
              return (
                <>
                  <FilterBar isFiltered={isFiltered} onClear={clear} end={<span className="text-xs text-text-2">{formatCount(rows.length)} shown</span>}>
                    <FilterText label="Search the tools" placeholder="Name or description" value={search.q} onChange={(next) => change({ q: next })} />
                    <FilterSelect label="Source" value={search.source} options={[{ value: 'builtin', label: 'Built in' }, { value: 'mcp', label: 'MCP server' }]} onChange={(source) => change({ source })} />
                    <FilterSelect label="Effect" value={search.effect} options={Object.keys(EFFECTS).map((value) => ({ value, label: capitalised(value) }))} onChange={(effect) => change({ effect })} />
                  </FilterBar>
                  {rows.length > 0 ? <ListTable label="Tools" columns={columns} rows={rows} rowKey={idOf} /> : <EmptyState title="No tool matches these filters." action={<Button onClick={clear}>Clear the filters</Button>}>New and changed tools of MCP servers appear here once they are accepted.</EmptyState>}
                </>
              )
            }}
          </Loaded>
        )}
      </Panel>
      {chosen && <ToolDialog tool={chosen} onClose={() => change({ tool: '' })} />}
    </>
  )
}

const PINS: Record<Schemas['PinPolicy'], [Tone, string, string]> = {
  pin: ['ok', 'Pinned', 'If it changes, it is held back until somebody accepts the change.'],
  warn: ['warn', 'Warns', 'If it changes, agents get the change, and a warning is written.'],
  off: ['idle', 'Not pinned', 'If it changes, agents get the change.'],
}

/** How a change of the tool is treated: the policy of its server. */
function Pinned({ policy }: { policy: Schemas['PinPolicy'] | undefined }) {
  if (!policy) return null
  const [tone, label, title] = PINS[policy]
  return <Badge tone={tone} title={title}>{label}</Badge>
}

function Source({ tool }: { tool: Tool }) {
  if (!tool.server) return <span className="text-text-2">Built in</span>
  return (
    <Link to="/mcp-servers/$name" params={{ name: tool.server }} className="text-accent-text hover:underline">
      {tool.server}
    </Link>
  )
}

function ToolDialog({ tool, onClose }: { tool: Tool; onClose: () => void }) {
  const [isOpen, setOpen] = useState(true)
  const close = () => {
    setOpen(false)
    onClose()
  }
  return (
    <Dialog open={isOpen} onClose={close} title={<span className="font-mono wrap-anywhere">{idOf(tool)}</span>} size="lg">
      <div className="space-y-4 pb-4">
        <p className="whitespace-pre-wrap text-text-2"><WithCode text={tool.description} /></p>
        <KeyValue
          items={[
            ['Source', <Source key="s" tool={tool} />],
            ['Effect', <Badge key="e" tone={EFFECTS[tool.effect]}>{capitalised(tool.effect)}</Badge>],
            ['Pinned', tool.server ? <ToolPinning key="p" server={tool.server} tool={tool.name} /> : null],
            ['Called as', <code key="c" className="font-mono text-xs">{tool.calledAs}</code>],
            ['Also', tool.aliases.length > 0 ? tool.aliases.join(', ') : null],
            ['Scope', tool.scope ?? null],
            ['Calling it again', tool.repeatable ? 'does no harm' : 'may do the same twice'],
            ['Same name', tool.conflict ? `The bare name means the tool of ${tool.conflict.owner ?? 'the server itself'}. Others: ${tool.conflict.others.join(', ')}.` : null],
          ]}
        />
        <div>
          <h3 className="mb-1 text-xs font-medium text-text-2">Input</h3>
          <JsonView value={tool.inputSchema} open={3} />
        </div>
      </div>
    </Dialog>
  )
}
