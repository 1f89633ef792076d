import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { packsQuery } from '~/api/graph'
import { keys } from '~/api/keys'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { toast } from '~/ui/toast'
import { titleOf } from '~/util/objects'
import { apiProblems, parseDraft, type Parsed, type Problems, schemaFields, toDraft } from '../object/object-draft'
import { ObjectForm } from '../object/ObjectForm'
import { useKnownTypes } from './use-known-types'

export function CreateObjectDialog({ type, onClose }: { type: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const packs = useQuery(packsQuery).data ?? []
  const types = useKnownTypes()
  const [draft, setDraft] = useState(() => toDraft(undefined, [], type))
  const [own, setOwn] = useState<Problems>({})
  const fields = schemaFields(packs, draft.type.trim())
  const create = useMutationOnce({
    mutationFn: ({ key, status, ...rest }: Parsed) => unwrap(api.POST('/api/graph/objects', { body: { ...rest, key: key ?? undefined, status: status ?? undefined } })),
    onSuccess: (object) => {
      toast(`${titleOf(object)} was created.`)
      void client.invalidateQueries({ queryKey: keys.objects })
      // Back leads to the list, and not to an empty form.
      void navigate({ to: '/graph/objects/$objectId', params: { objectId: object.id }, replace: true })
    },
  })
  const submit = () => {
    const { parsed, problems } = parseDraft(draft, fields)
    setOwn(problems)
    if (parsed) create.mutate(parsed)
  }
  const problems = { ...apiProblems(create.error), ...own }
  const isExplained = Object.keys(problems).length > 0
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={submit}
      title="New object"
      description="A thing with a type, a name and properties. Every change of it is kept."
      size="md"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" busy={create.isPending} type="submit">
            Create the object
          </Button>
        </>
      }
    >
      <ObjectForm draft={draft} onChange={setDraft} fields={fields} problems={problems} types={types} />
      {create.error && !isExplained ? <InlineError error={create.error} /> : null}
    </Dialog>
  )
}
