import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { api, currentProject, unwrap, unwrapAll } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { projectsQuery } from '~/api/queries'
import { useScope, useSession } from '~/api/session'
import type { Schemas, Scope } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { CopyButton } from '~/ui/CopyButton'
import { Dialog } from '~/ui/Dialog'
import { EmptyState } from '~/ui/EmptyState'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Select } from '~/ui/Field'
import { ListEnd } from '~/ui/ListEnd'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { NumberField } from '~/ui/NumberField'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { ScrollList } from '~/ui/ScrollList'
import { toast } from '~/ui/toast'
import { RelativeTime } from '~/ui/Values'

type Token = Schemas['Token']
const DIALOGS = ['new', 'revoke'] as const
const SCOPES: [Scope, string][] = [
  ['graph:read', 'Read objects, relationships and documents'],
  ['graph:write', 'Write them'],
  ['agents:read', 'See agents, tools and budgets'],
  ['agents:write', 'Create and change agents'],
  ['agents:invoke', 'Start agents and workflows'],
  ['chat:use', 'Chat with agents'],
  ['approvals:decide', 'Decide what waits in the inbox'],
  ['admin:read', 'See runs, servers, tokens and the audit'],
  ['admin:write', 'Change servers, products, secrets, tokens and settings'],
]

export function TokensPage() {
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const session = useSession()
  const { dialog, of, open, close } = useUrlDialog(DIALOGS)
  const tokens = useQuery({ queryKey: keys.tokens, enabled: allowed, queryFn: ({ signal }) => unwrapAll((cursor) => api.GET('/api/tokens', { params: { query: { limit: 100, cursor } }, signal })) })
  const chosen = tokens.data?.items.find((one) => one.id === of)
  return (
    <>
      <PageHeader title="Tokens" description="Who may use the API of this server, and for what." actions={<Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={write.reason} onClick={() => open('new')}>Create a token</Button>} />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see tokens.">{reason}</EmptyState>
        ) : (
          <Loaded query={tokens} what="The tokens could not be loaded.">
            {(page) => (
              <>
              <ListTable
                label="Tokens"
                rows={page.items}
                rowKey={(one) => one.id}
                columns={[
                  { key: 'name', head: 'Token', cell: (one) => <><span className="font-medium wrap-anywhere">{one.name}</span> {one.id === session?.tokenId && <Badge tone="run">Yours</Badge>}</> },
                  { key: 'scopes', head: 'Scopes', from: 'md', below: true, cell: (one) => <span className="text-xs text-text-2">{one.scopes.length === SCOPES.length ? 'All' : one.scopes.join(', ')}</span> },
                  { key: 'expires', head: 'Expires', from: 'sm', below: true, cell: (one) => (one.expiresAt ? <RelativeTime at={one.expiresAt} /> : 'Never') },
                  { key: 'created', head: 'Created', from: 'sm', cell: (one) => <RelativeTime at={one.createdAt} /> },
                  { key: 'revoke', head: <span className="sr-only">Actions</span>, align: 'end', cell: (one) => (one.revokedAt ? <Badge>Revoked</Badge> : <Button size="sm" aria-label={`Revoke ${one.name}`} disabledReason={write.reason} onClick={() => open('revoke', one.id)}>Revoke…</Button>) },
                ]}
              />
              <ListEnd page={page} />
              </>
            )}
          </Loaded>
        )}
      </Panel>
      {dialog === 'new' && <CreateDialog disabledReason={write.reason} onClose={close} />}
      {dialog === 'revoke' && chosen && <RevokeDialog key={chosen.id} token={chosen} disabledReason={write.reason} onClose={close} />}
    </>
  )
}

type DialogProps = { disabledReason: string | undefined; onClose: () => void }

// Not on a button: an Enter that is still held would close the dialog before the token is copied.
const focus = (shown: HTMLElement | null) => shown?.focus()

function CreateDialog({ disabledReason, onClose }: DialogProps) {
  const client = useQueryClient()
  const [name, setName] = useState('')
  const [days, setDays] = useState<number | null>(90)
  const [scopes, setScopes] = useState<Scope[]>(['graph:read', 'agents:read'])
  const spans = !useSession()?.project
  const [project, setProject] = useState(currentProject() ?? 'default')
  const projects = useQuery({ ...projectsQuery, enabled: spans }).data?.items ?? []
  const create = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/tokens', { body: { name, scopes, ...(spans && project && { project }), ...(days === null ? {} : { expiresAt: new Date(Date.now() + days * 86_400_000).toISOString() }) } })),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.tokens }),
  })
  const secret = create.data?.token
  if (secret) {
    return (
      <Dialog open isKept onClose={onClose} title={`The token ${name}`} description="Copy it now: it is not shown again." footer={<Button variant="primary" onClick={onClose}>I have copied it</Button>}>
        <p ref={focus} tabIndex={-1} className="flex items-center gap-2 rounded-md bg-sunken p-3 outline-none"><code className="min-w-0 flex-1 font-mono text-xs wrap-anywhere">{secret}</code><CopyButton text={secret} label="Copy the token" /></p>
      </Dialog>
    )
  }
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => create.mutate()}
      title="Create a token"
      footer={<><Button onClick={onClose}>Discard</Button><Button variant="primary" busy={create.isPending} disabledReason={disabledReason ?? (!name ? 'Give the token a name.' : scopes.length === 0 ? 'Choose at least one scope.' : undefined)} type="submit">Create the token</Button></>}
    >
      <div className="grid gap-4">
        <Field label="Name" hint="Who or what will use it." problem={problemAt(create.error, 'name')}>{(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} />}</Field>
        <NumberField label="Valid for days" hint="Empty: until it is revoked." problem={problemAt(create.error, 'expiresAt')} whole least={1} most={36_500} value={days} onChange={setDays} />
        {spans && (
          <Field label="Project" hint={currentProject() ? 'For a token of all projects, open the project default first.' : 'A token of all projects also changes what belongs to the server.'} problem={problemAt(create.error, 'project')}>
            {(ids) => <Select {...ids} value={project} onChange={(event) => setProject(event.target.value)} options={[...projects.map((one) => ({ value: one.name, label: one.name })), ...(currentProject() ? [] : [{ value: '', label: 'All projects' }])]} />}
          </Field>
        )}
        <fieldset className="grid gap-2">
          <legend className="mb-1 text-xs font-medium text-text-2">Scopes</legend>
          {SCOPES.map(([scope, text]) => (
            <label key={scope} aria-label={scope} className="flex items-start gap-2 text-sm">
              <input type="checkbox" aria-label={`${scope}: ${text}`} className="mt-0.5 size-3.5 accent-accent" checked={scopes.includes(scope)} onChange={(event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} />
              <span><code className="font-mono text-xs">{scope}</code> <span className="text-text-2">{text}</span></span>
            </label>
          ))}
        </fieldset>
      </div>
      <InlineError error={create.error && otherProblem(create.error, ['name', 'expiresAt', 'project'])} />
    </Dialog>
  )
}

function RevokeDialog({ token, disabledReason, onClose }: DialogProps & { token: Token }) {
  const client = useQueryClient()
  const session = useSession()
  // A revocation says which tokens this one created. Those that are still valid are a second question.
  const [left, setLeft] = useState<Schemas['CreatedToken'][]>()
  const revoke = useMutationOnce({
    mutationFn: (children: boolean) => unwrap(api.DELETE('/api/tokens/{id}', { params: { path: { id: token.id }, query: { children } } })),
    onSuccess: ({ createdTokens }, children) => {
      const valid = (createdTokens ?? []).filter((one) => !one.revokedAt)
      toast(children ? `The tokens that ${token.name} created were revoked.` : `The token ${token.name} was revoked.`)
      void client.invalidateQueries({ queryKey: keys.tokens })
      if (valid.length > 0 && !children) setLeft(valid)
      else onClose()
    },
  })
  if (left) {
    const count = left.length === 1 ? 'the token' : `the ${left.length} tokens`
    return (
      <ConfirmDialog open onClose={onClose} onConfirm={() => revoke.mutate(true)} title={`Revoke ${count} that ${token.name} created`} action={left.length === 1 ? 'Revoke it too' : 'Revoke them too'} danger busy={revoke.isPending} error={revoke.error}>
        <p>{token.name} is revoked. What it created stays valid:</p>
        <ScrollList label="Tokens that it created" className="max-h-48 list-disc pl-5">{left.map((one) => <li key={one.id} className="wrap-anywhere">{one.name}{one.id === session?.tokenId && ', your own token: you will be logged out'}</li>)}</ScrollList>
      </ConfirmDialog>
    )
  }
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => revoke.mutate(false)} title={`Revoke ${token.name}`} action="Revoke the token" danger busy={revoke.isPending} error={revoke.error} disabledReason={disabledReason ?? (token.revokedAt ? 'The token was revoked.' : undefined)}>
      <p>It stops working at once, and browsers that use it are logged out. This cannot be undone. Tokens that it created stay valid until you revoke them too: they are listed next. {token.id === session?.tokenId && 'This is your own token: you will be logged out.'}</p>
    </ConfirmDialog>
  )
}
