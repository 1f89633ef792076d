import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { projectsQuery } from '~/api/queries'
import { useScope, useSession } from '~/api/session'
import type { Project } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { toast } from '~/ui/toast'
import { RelativeTime } from '~/ui/Values'

const DIALOGS = ['new', 'delete'] as const

/** The projects that the token can access. */
export function ProjectsCard({ currentId }: { currentId: string | undefined }) {
  const session = useSession()
  const write = useScope('admin:write')
  const query = useQuery(projectsQuery)
  const { dialog, of, open, close } = useUrlDialog(DIALOGS)
  const reason = write.reason ?? (session?.project ? 'Your token belongs to one project. A token that spans projects can do this.' : undefined)
  const chosen = query.data?.items.find((one) => one.name === of)
  const whyNotDeleted = (one: Project) => reason ?? (one.name === 'default' ? 'The project default cannot be deleted.' : one.id === currentId ? 'Open another project first.' : undefined)
  return (
    <Card title="Projects" flush action={<Button size="sm" disabledReason={reason} onClick={() => open('new')}>Create a project</Button>}>
      <Loaded query={query} what="The projects could not be loaded.">
        {({ items }) => (
          <ListTable
            label="Projects"
            rows={items}
            rowKey={(one) => one.id}
            columns={[
              { key: 'name', head: 'Project', cell: (one) => <><Link to="/" search={{ project: one.name === 'default' ? undefined : one.name } as never} className="font-medium wrap-anywhere hover:underline">{one.name}</Link> {one.id === currentId && <Badge tone="run">Open</Badge>}</> },
              { key: 'created', head: 'Created', from: 'sm', cell: (one) => <RelativeTime at={one.createdAt} className="text-text-2" /> },
              { key: 'delete', head: <span className="sr-only">Actions</span>, align: 'end', cell: (one) => <Button size="sm" aria-label={`Delete ${one.name}`} disabledReason={whyNotDeleted(one)} onClick={() => open('delete', one.name)}>Delete…</Button> },
            ]}
          />
        )}
      </Loaded>
      {dialog === 'new' && <CreateDialog disabledReason={reason} onClose={close} />}
      {dialog === 'delete' && chosen && <DeleteDialog key={chosen.id} project={chosen} disabledReason={whyNotDeleted(chosen)} onClose={close} />}
    </Card>
  )
}

type DialogProps = { disabledReason: string | undefined; onClose: () => void }

function CreateDialog({ disabledReason, onClose }: DialogProps) {
  const client = useQueryClient()
  const [name, setName] = useState('')
  const create = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/projects', { body: { name: name.trim() } })),
    onSuccess: (project) => {
      toast(`The project ${project.name} was created.`)
      void client.invalidateQueries({ queryKey: keys.projects })
      onClose()
    },
  })
  return (
    <Dialog open onClose={onClose} onSubmit={() => create.mutate()} size="sm" title="Create a project" description="Its objects, agents, runs, tokens and secrets are apart from those of all other projects." footer={<><Button onClick={onClose}>Discard</Button><Button variant="primary" busy={create.isPending} disabledReason={disabledReason ?? (name.trim() ? undefined : 'Give the project a name.')} type="submit">Create the project</Button></>}>
      <Field label="Name of the project" hint="Letters, digits, and . _ - inside of it." problem={problemAt(create.error, 'name')}>{(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} />}</Field>
      <InlineError error={create.error && otherProblem(create.error, ['name'])} />
    </Dialog>
  )
}

function DeleteDialog({ project, disabledReason, onClose }: DialogProps & { project: Project }) {
  const client = useQueryClient()
  const [typed, setTyped] = useState('')
  const remove = useMutationOnce({
    mutationFn: () => unwrap(api.DELETE('/api/projects/{id}', { params: { path: { id: project.id } } })),
    onSuccess: () => {
      toast(`The project ${project.name} was deleted.`)
      void client.invalidateQueries({ queryKey: keys.projects })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Delete the project ${project.name}`} action="Delete the project" danger busy={remove.isPending} error={remove.error} disabledReason={disabledReason ?? (typed === project.name ? undefined : 'Type the name of the project first.')}>
      <p>Its tokens and secrets stop working, and its runs and workflows end, at once. What it holds is removed later. Nothing brings it back.</p>
      <Field label={`Type ${project.name} to confirm`}>{(ids) => <Input {...ids} value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </ConfirmDialog>
  )
}
