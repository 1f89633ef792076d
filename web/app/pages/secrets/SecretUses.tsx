import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { toast } from '~/ui/toast'

type Destination = Schemas['SecretDestination']

/** The servers that name a secret, and whether they get it. One that does not can be allowed to. */
export function SecretUses({ secret }: { secret: Schemas['Secret'] }) {
  const write = useScope('admin:write')
  const [allowing, setAllowing] = useState<Destination>()
  if (secret.usedBy.length === 0) return <span className="text-text-2">No server</span>
  return (
    <ul className="space-y-1">
      {secret.usedBy.map((server) => {
        const refused = secret.destinations?.find((one) => one.server === server && !one.allowed)
        return (
          <li key={server} className="flex flex-wrap items-center gap-x-2 gap-y-1">
            <Link to="/mcp-servers/$name" params={{ name: server }} className="break-all text-accent-text hover:underline">{server}</Link>
            {refused && <Badge tone="warn">Does not get it</Badge>}
            {refused && <Button size="sm" aria-label={`Allow ${server} to get ${secret.name}`} disabledReason={write.reason} onClick={() => setAllowing(refused)}>Allow…</Button>}
          </li>
        )
      })}
      {allowing && <AllowDialog name={secret.name} destination={allowing} onClose={() => setAllowing(undefined)} />}
    </ul>
  )
}

function AllowDialog({ name, destination, onClose }: { name: string; destination: Destination; onClose: () => void }) {
  const client = useQueryClient()
  const allow = useMutation({
    mutationFn: () => unwrap(api.POST('/api/admin/secrets/{name}/bindings', { params: { path: { name } }, body: { server: destination.server } })),
    onSuccess: () => {
      toast(`${destination.server} gets ${name} from now on.`)
      void client.invalidateQueries({ queryKey: keys.secrets })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => allow.mutate()} title={`Allow ${destination.server} to get ${name}`} action="Allow it" busy={allow.isPending} error={allow.error}>
      <p>The server was added or changed with a token that may not decide where this secret goes. If you allow it, the secret is sent here:</p>
      <p className="rounded-md bg-sunken p-3"><code className="font-mono text-xs break-all text-text">{destination.target}</code></p>
    </ConfirmDialog>
  )
}
