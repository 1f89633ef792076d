import { useQuery } from '@tanstack/react-query'
import { mcpServerQuery, mcpServerToolsQuery } from '~/api/mcp-servers'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'

const TEXTS: Record<Schemas['PinPolicy'], string> = {
  pin: 'Yes: if it changes, it is held back until somebody accepts the change',
  warn: 'No: if it changes, agents get the change, and a warning is written',
  off: 'No: if it changes, agents get the change',
}

/** Whether agents get a tool of a server only as it was accepted. The policy is one of the server. */
export function ToolPinning({ server, tool }: { server: string; tool: string }) {
  const { allowed, reason } = useScope('admin:read')
  const owner = useQuery({ ...mcpServerQuery(server), enabled: allowed })
  if (!allowed) return <span className="text-text-2">{reason}</span>
  if (owner.error) return <span className="text-text-2">This could not be found out.</span>
  if (!owner.data) return <span className="text-text-2">…</span>
  return (
    <>
      {TEXTS[owner.data.pinPolicy]}. <Changed server={owner.data} tool={tool} />
    </>
  )
}

function Changed({ server, tool }: { server: Schemas['McpServer']; tool: string }) {
  const tools = useQuery(mcpServerToolsQuery(server))
  const hasChanged = tools.data?.find((one) => one.name === tool)?.status === 'changed'
  return hasChanged && <span className="text-warn">It is not what was accepted.</span>
}
