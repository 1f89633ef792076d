import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus, RotateCw } from 'lucide-react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { secretsQuery } from '~/api/queries'
import { useScope, useSession } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { EmptyState } from '~/ui/EmptyState'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { toast } from '~/ui/toast'
import { RelativeTime } from '~/ui/Values'
import { SecretUses } from './SecretUses'
import { SetDialog } from './SetDialog'

const DIALOGS = ['new', 'replace', 'delete', 'rotate'] as const

export function SecretsPage() {
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const { dialog, of, open, close } = useUrlDialog(DIALOGS)
  const session = useSession()
  const rotateReason = write.reason ?? (session?.project ? 'Your token belongs to one project, and the key is that of all. A token that spans projects can do this.' : undefined)
  const secrets = useQuery({ ...secretsQuery, enabled: allowed })
  const names = secrets.data?.map((one) => one.name)
  const chosen = secrets.data && of
  // A link may name a secret that is gone, and somebody may delete it while its new value is typed.
  const changeReason = write.reason ?? (of !== undefined && names?.includes(of) ? undefined : 'There is no such secret any more.')
  const add = <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={write.reason} onClick={() => open('new')}>Set a secret</Button>
  return (
    <>
      <PageHeader title="Secrets" description="Keys that external servers need. They are stored encrypted, and nobody can read them here." actions={<><Button icon={<RotateCw aria-hidden size={14} />} disabledReason={rotateReason} onClick={() => open('rotate')}>Rotate the key…</Button>{add}</>} />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see secrets.">{reason}</EmptyState>
        ) : (
          <Loaded query={secrets} what="The secrets could not be loaded.">
            {(items) =>
              items.length === 0 ? (
                <EmptyState title="There is no secret yet." action={add}>MCP servers name a secret as {'${NAME}'} in their headers or environment.</EmptyState>
              ) : (
                <ListTable
                  label="Secrets"
                  rows={items}
                  rowKey={(one) => one.name}
                  columns={[
                    { key: 'name', head: 'Secret', className: 'min-w-36', cell: (one) => <code className="font-mono text-xs wrap-anywhere">{one.name}</code> },
                    { key: 'used', head: 'Used by', cell: (one) => <SecretUses secret={one} /> },
                    { key: 'updated', head: 'Set', from: 'sm', cell: (one) => <RelativeTime at={one.updatedAt} className="text-text-2" /> },
                    {
                      key: 'actions',
                      head: <span className="sr-only">Actions</span>,
                      align: 'end',
                      cell: (one) => (
                        <span className="inline-flex flex-wrap justify-end gap-1">
                          <Button size="sm" aria-label={`Replace ${one.name}`} disabledReason={write.reason} onClick={() => open('replace', one.name)}>Replace…</Button>
                          <Button size="sm" aria-label={`Delete ${one.name}`} disabledReason={write.reason} onClick={() => open('delete', one.name)}>Delete…</Button>
                        </span>
                      ),
                    },
                  ]}
                />
              )
            }
          </Loaded>
        )}
      </Panel>
      {dialog === 'new' && <SetDialog names={names} disabledReason={write.reason} onClose={close} />}
      {dialog === 'replace' && chosen && <SetDialog key={chosen} known={chosen} names={names} disabledReason={changeReason} onClose={close} />}
      {dialog === 'rotate' && <RotateDialog disabledReason={rotateReason} onClose={close} />}
      {dialog === 'delete' && chosen && <DeleteDialog key={chosen} name={chosen} disabledReason={changeReason} onClose={close} />}
    </>
  )
}

type DialogProps = { disabledReason: string | undefined; onClose: () => void }

function DeleteDialog({ name, disabledReason, onClose }: DialogProps & { name: string }) {
  const client = useQueryClient()
  const remove = useMutationOnce({
    mutationFn: () => unwrap(api.DELETE('/api/admin/secrets/{name}', { params: { path: { name } } })),
    onSuccess: () => {
      toast(`The secret ${name} was deleted.`)
      void client.invalidateQueries({ queryKey: keys.secrets })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Delete ${name}`} action="Delete the secret" danger busy={remove.isPending} error={remove.error} disabledReason={disabledReason}>
      <p>Servers that use it cannot be connected to any more. Its value cannot be restored.</p>
    </ConfirmDialog>
  )
}

/** Encrypts the secrets of all projects with another key. */
function RotateDialog({ disabledReason, onClose }: DialogProps) {
  const rotate = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/admin/secrets/rotate')),
    onSuccess: ({ key, resealed }) => {
      toast(`The key is now ${key}.`, { description: `${resealed} ${resealed === 1 ? 'secret was' : 'secrets were'} encrypted again.` })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => rotate.mutate()} title="Rotate the key of all secrets" action="Rotate the key" busy={rotate.isPending} error={rotate.error} disabledReason={disabledReason}>
      <p>The secrets of all projects are encrypted with another key: a new one if the server keeps its key in its data folder, else the first one of EMERGENT_SECRET_KEY. Their values stay, and nothing that uses them stops.</p>
      <p>A backup that was made before needs the key that it was made with, so keep both together.</p>
    </ConfirmDialog>
  )
}
