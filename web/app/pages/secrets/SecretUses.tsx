import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { toast } from '~/ui/toast'

type Destination = Schemas['SecretDestination']
const DIALOGS = ['allow'] as const

/** The servers that name a secret, and whether they get it. One that does not can be allowed to. */
export function SecretUses({ secret }: { secret: Schemas['Secret'] }) {
  const write = useScope('admin:write')
  const { dialog, of, open, close } = useUrlDialog(DIALOGS)
  const rowOf = (server: string) => `${secret.name}/${server}`
  const allowing = dialog && secret.destinations?.find((one) => rowOf(one.server) === of)
  if (secret.usedBy.length === 0) return <span className="text-text-2">No server</span>
  return (
    <ul className="space-y-1">
      {secret.usedBy.map((server) => {
        const refused = secret.destinations?.find((one) => one.server === server && !one.allowed)
        return (
          <li key={server} className="flex flex-wrap items-center gap-x-2 gap-y-1">
            <Link to="/mcp-servers/$name" params={{ name: server }} className="wrap-anywhere text-accent-text hover:underline">{server}</Link>
            {refused && <Badge tone="warn">Does not get it</Badge>}
            {refused && <Button size="sm" aria-label={`Allow ${server} to get ${secret.name}`} disabledReason={write.reason} onClick={() => open('allow', rowOf(server))}>Allow…</Button>}
          </li>
        )
      })}
      {allowing && <AllowDialog name={secret.name} destination={allowing} disabledReason={write.reason ?? (allowing.allowed ? `${allowing.server} gets it already.` : undefined)} onClose={close} />}
    </ul>
  )
}

function AllowDialog({ name, destination, disabledReason, onClose }: { name: string; destination: Destination; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const allow = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/admin/secrets/{name}/bindings', { params: { path: { name } }, body: { server: destination.server } })),
    onSuccess: () => {
      toast(`${destination.server} gets ${name} from now on.`)
      void client.invalidateQueries({ queryKey: keys.secrets })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => allow.mutate()} title={`Allow ${destination.server} to get ${name}`} action="Allow it" busy={allow.isPending} error={allow.error} disabledReason={disabledReason}>
      <p>The server was added or changed with a token that may not decide where this secret goes. If you allow it, the secret is sent here:</p>
      <p className="rounded-md bg-sunken p-3"><code className="font-mono text-xs wrap-anywhere text-text">{destination.target}</code></p>
    </ConfirmDialog>
  )
}
