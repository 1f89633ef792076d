import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus, RotateCw } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { useScope, useSession } from '~/api/session'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Dialog } from '~/ui/Dialog'
import { EmptyState } from '~/ui/EmptyState'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { toast } from '~/ui/toast'
import { RelativeTime } from '~/ui/Values'
import { SecretUses } from './SecretUses'

export function SecretsPage() {
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const [setting, setSetting] = useState<string>()
  const [deleting, setDeleting] = useState<string>()
  const [rotates, setRotates] = useState(false)
  const session = useSession()
  const rotateReason = write.reason ?? (session?.project ? 'Your token belongs to one project, and the key is that of all. A token that spans projects can do this.' : undefined)
  const secrets = useQuery({ queryKey: keys.secrets, enabled: allowed, queryFn: ({ signal }) => unwrap(api.GET('/api/admin/secrets', { signal })) })
  const add = <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={write.reason} onClick={() => setSetting('')}>Set a secret</Button>
  return (
    <>
      <PageHeader title="Secrets" description="Keys that external servers need. They are stored encrypted, and nobody can read them here." actions={<><Button icon={<RotateCw aria-hidden size={14} />} disabledReason={rotateReason} onClick={() => setRotates(true)}>Rotate the key…</Button>{add}</>} />
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
                          <Button size="sm" aria-label={`Replace ${one.name}`} disabledReason={write.reason} onClick={() => setSetting(one.name)}>Replace…</Button>
                          <Button size="sm" aria-label={`Delete ${one.name}`} disabledReason={write.reason} onClick={() => setDeleting(one.name)}>Delete…</Button>
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
      {setting !== undefined && <SetDialog known={setting} onClose={() => setSetting(undefined)} />}
      {rotates && <RotateDialog onClose={() => setRotates(false)} />}
      {deleting && <DeleteDialog name={deleting} onClose={() => setDeleting(undefined)} />}
    </>
  )
}

function SetDialog({ known, onClose }: { known: string; onClose: () => void }) {
  const client = useQueryClient()
  const [name, setName] = useState(known)
  const [value, setValue] = useState('')
  const save = useMutation({
    mutationFn: () => unwrap(api.PUT('/api/admin/secrets/{name}', { params: { path: { name } }, body: { value } })),
    onSuccess: () => {
      toast(`The secret ${name} was set.`)
      void client.invalidateQueries({ queryKey: keys.secrets })
      onClose()
    },
  })
  return (
    <Dialog open onClose={onClose} size="sm" title={known ? `Replace ${known}` : 'Set a secret'} footer={<><Button onClick={onClose}>Discard</Button><Button variant="primary" busy={save.isPending} disabledReason={!name ? 'Name the secret.' : !value ? 'Enter its value.' : undefined} onClick={() => save.mutate()}>Set the secret</Button></>}>
      <div className="grid gap-4">
        {!known && <Field label="Name" hint="Such as GITHUB_TOKEN." problem={problemAt(save.error, 'name')}>{(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} />}</Field>}
        <Field label="Value" hint="It is used from the next connection on." problem={problemAt(save.error, 'value')}>{(ids) => <Input {...ids} type="password" autoComplete="new-password" value={value} onChange={(event) => setValue(event.target.value)} />}</Field>
      </div>
      <InlineError error={save.error && otherProblem(save.error, ['name', 'value'])} />
    </Dialog>
  )
}

function DeleteDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const client = useQueryClient()
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/api/admin/secrets/{name}', { params: { path: { name } } })),
    onSuccess: () => {
      toast(`The secret ${name} was deleted.`)
      void client.invalidateQueries({ queryKey: keys.secrets })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Delete ${name}`} action="Delete the secret" danger busy={remove.isPending} error={remove.error}>
      <p>Servers that use it cannot be connected to any more. Its value cannot be restored.</p>
    </ConfirmDialog>
  )
}

/** Encrypts the secrets of all projects with another key. */
function RotateDialog({ onClose }: { onClose: () => void }) {
  const rotate = useMutation({
    mutationFn: () => unwrap(api.POST('/api/admin/secrets/rotate')),
    onSuccess: ({ key, resealed }) => {
      toast(`The key is now ${key}.`, { description: `${resealed} ${resealed === 1 ? 'secret was' : 'secrets were'} encrypted again.` })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => rotate.mutate()} title="Rotate the key of all secrets" action="Rotate the key" busy={rotate.isPending} error={rotate.error}>
      <p>The secrets of all projects are encrypted with another key: a new one if the server keeps its key in its data folder, else the first one of EMERGENT_SECRET_KEY. Their values stay, and nothing that uses them stops.</p>
      <p>A backup that was made before needs the key that it was made with, so keep both together.</p>
    </ConfirmDialog>
  )
}
