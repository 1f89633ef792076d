import { useQuery } from '@tanstack/react-query'
import { api, unwrap } from '~/api/client'
import { mcpServerToolsQuery } from '~/api/mcp-servers'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Badge, type Tone } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { Dialog } from '~/ui/Dialog'
import { Diff } from '~/ui/Diff'
import { EmptyState } from '~/ui/EmptyState'
import { InlineError } from '~/ui/ErrorState'
import { JsonView } from '~/ui/JsonView'
import { Loaded } from '~/ui/Loaded'
import { toast } from '~/ui/toast'
import { WithCode } from '~/ui/WithCode'

type Server = Schemas['McpServer']
type Tool = Schemas['McpServerTool']
const LOOK: Record<Tool['status'], [Tone, string]> = { live: ['ok', 'Accepted'], new: ['wait', 'New'], changed: ['warn', 'Changed'], gone: ['idle', 'Gone'] }

/** The tools of a server as they were last listed; those that are held back first. */
export function ServerTools({ server, chosen, onChoose, onChanged }: { server: Server; chosen: string | undefined; onChoose: (tool: string | undefined) => void; onChanged: () => void }) {
  const tools = useQuery(mcpServerToolsQuery(server))
  const open = tools.data?.find((tool) => tool.name === chosen)
  return (
    <Card title="Tools" flush>
      <Loaded query={tools} what="The tools could not be loaded.">
        {(items) =>
          items.length === 0 ? (
            <EmptyState title="Its tools are not known yet.">Inspect the server: it is contacted, and its tools are listed.</EmptyState>
          ) : (
            <ul className="divide-y divide-line">
              {items.toSorted((a, b) => Number(b.heldBack) - Number(a.heldBack)).map((tool) => (
                <li key={tool.name} className="flex items-start gap-3 px-4 py-2.5">
                  <div className="min-w-0 flex-1">
                    <button type="button" className="text-left font-mono text-xs font-medium wrap-anywhere hover:underline" onClick={() => onChoose(tool.name)}>{tool.name}</button>
                    <p className="line-clamp-2 text-xs text-text-2"><WithCode text={tool.description} /></p>
                  </div>
                  <Badge tone={LOOK[tool.status][0]}>{LOOK[tool.status][1]}{tool.heldBack && ' · held back'}</Badge>
                  {tool.heldBack && <Button size="sm" onClick={() => onChoose(tool.name)}>Review…</Button>}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {open && <ToolReview key={open.digest} server={server} tool={open} onClose={() => onChoose(undefined)} onChanged={onChanged} />}
    </Card>
  )
}

/** What a tool says of itself and what it said when it was accepted. Exactly what is shown here is accepted. */
function ToolReview({ server, tool, onClose, onChanged }: { server: Server; tool: Tool; onClose: () => void; onChanged: () => void }) {
  const write = useScope('admin:write')
  const accept = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/admin/mcp-servers/{id}/tools/{tool}/accept', { params: { path: { id: server.id, tool: tool.name } }, body: { digest: tool.digest } })),
    onSuccess: () => {
      toast(`${tool.name} was accepted.`)
      onChanged()
      onClose()
    },
  })
  const now = { description: tool.description, inputSchema: tool.inputSchema, annotations: tool.annotations ?? null }
  const before = tool.before && { description: tool.before.description, inputSchema: tool.before.inputSchema, annotations: tool.before.annotations ?? null }
  return (
    <Dialog
      open
      onClose={onClose}
      size="lg"
      title={<span className="font-mono wrap-anywhere">{tool.name}</span>}
      description={tool.status === 'changed' ? 'It is no longer what was accepted. Agents do not get it until somebody accepts the change.' : tool.heldBack ? 'It is new. Agents do not get it until somebody accepts it.' : undefined}
      footer={
        tool.heldBack && (
          <>
            <Button onClick={onClose}>Keep it back</Button>
            <Button variant="primary" disabledReason={write.reason} busy={accept.isPending} onClick={() => accept.mutate()}>Accept what is shown</Button>
          </>
        )
      }
    >
      {before && tool.status === 'changed' ? <Diff before={before} after={now} label="What changed" /> : <JsonView value={now} open={3} />}
      <p className="mt-2 pb-2 text-xs wrap-anywhere text-text-2">Digest <code className="font-mono">{tool.digest}</code></p>
      <InlineError error={accept.error} />
    </Dialog>
  )
}
