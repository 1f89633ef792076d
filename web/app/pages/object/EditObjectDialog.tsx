import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { ApiError } from '~/api/errors'
import { type GraphObject, packsQuery, type TemplatePack } from '~/api/graph'
import { keys } from '~/api/keys'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { Diff } from '~/ui/Diff'
import { InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'
import { titleOf } from '~/util/objects'
import { useKnownTypes } from '../graph/use-known-types'
import { apiProblems, fieldsOf, parseDraft, type Parsed, type Problems, propertyChanges, schemaFields, toDraft } from './object-draft'
import { ObjectForm } from './ObjectForm'
import { contentOf } from './shape'

type Props = { object: GraphObject; disabledReason: string | undefined; onClose: () => void }

/** Changes an object from the version that was shown. If somebody was faster, both versions are shown. */
export function EditObjectDialog({ object, disabledReason, onClose }: Props) {
  const packs = useQuery(packsQuery)
  // The draft has the fields of the schema, so the packs have to be known before it is made. Without them it is JSON.
  if (packs.isPending) return <Dialog open onClose={onClose} title={`Edit ${titleOf(object)}`}><SkeletonRows rows={4} /></Dialog>
  return <EditForm object={object} packs={packs.data ?? []} disabledReason={disabledReason} onClose={onClose} />
}

function EditForm({ object, packs, disabledReason, onClose }: Props & { packs: readonly TemplatePack[] }) {
  const client = useQueryClient()
  const types = useKnownTypes()
  // The version that the draft was made from; it does not move while somebody types.
  const [base, setBase] = useState(object)
  const [opened, setOpened] = useState(() => toDraft(object, schemaFields(packs, object.type)))
  const [draft, setDraft] = useState(opened)
  const [own, setOwn] = useState<Problems>({})
  const [conflict, setConflict] = useState<{ theirs: GraphObject; mine: Parsed }>()
  const fields = fieldsOf(packs, draft, base)

  const save = useMutationOnce({
    mutationFn: async ({ mine, from, expected }: { mine: Parsed; from: GraphObject; expected: number }) =>
      unwrap(
        api.PATCH('/api/graph/objects/{id}', {
          params: { path: { id: from.id } },
          body: { type: mine.type, key: mine.key, status: mine.status, labels: mine.labels, properties: propertyChanges(from.properties, mine.properties), expectedVersion: expected },
        }),
      ),
    onSuccess: (next) => {
      toast(next.version === base.version ? 'Nothing was changed.' : `${titleOf(next)} is now version ${next.version}.`)
      void client.invalidateQueries({ queryKey: keys.objects })
      onClose()
    },
    onError: async (error, { mine }) => {
      if (!(error instanceof ApiError) || error.code !== 'version_conflict') return
      const theirs = await unwrap(api.GET('/api/graph/objects/{id}', { params: { path: { id: object.id } } }))
      setConflict({ theirs, mine })
    },
  })
  const submit = () => {
    const { parsed, problems } = parseDraft(draft, fields, { object: base, draft: opened })
    setOwn(problems)
    if (parsed) save.mutate({ mine: parsed, from: base, expected: base.version })
  }
  const takeTheirs = (theirs: GraphObject) => {
    const next = toDraft(theirs, schemaFields(packs, theirs.type))
    setBase(theirs)
    setOpened(next)
    setDraft(next)
    setConflict(undefined)
    save.reset()
  }
  if (conflict) {
    const { theirs, mine } = conflict
    return (
      <Dialog
        open
        onClose={onClose}
        size="lg"
        title={`Somebody else wrote version ${theirs.version} meanwhile`}
        description={`You edited version ${base.version}. Compare both, and decide which one the next version is.`}
        footer={
          <>
            <Button onClick={() => takeTheirs(theirs)}>Edit theirs</Button>
            <Button variant="primary" busy={save.isPending} disabledReason={disabledReason} onClick={() => save.mutate({ mine, from: theirs, expected: theirs.version })}>
              Save mine as version {theirs.version + 1}
            </Button>
          </>
        }
      >
        <div className="grid gap-4 md:grid-cols-2">
          <section className="min-w-0">
            <h3 className="mb-1 text-xs font-medium text-text-2">What they changed: version {base.version} → {theirs.version}</h3>
            <Diff before={contentOf(base)} after={contentOf(theirs)} label="What they changed" />
          </section>
          <section className="min-w-0">
            <h3 className="mb-1 text-xs font-medium text-text-2">What yours would change: version {theirs.version} → yours</h3>
            <Diff before={contentOf(theirs)} after={contentOf(mine)} label="What yours would change" />
          </section>
        </div>
      </Dialog>
    )
  }
  const problems = { ...apiProblems(save.error), ...own }
  const isExplained = Object.keys(problems).length > 0 || (save.error instanceof ApiError && save.error.code === 'version_conflict')
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={submit}
      title={`Edit ${titleOf(base)}`}
      description={`From version ${base.version}. Earlier versions stay in the history.`}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" busy={save.isPending} disabledReason={disabledReason} type="submit">
            Save
          </Button>
        </>
      }
    >
      <ObjectForm draft={draft} onChange={setDraft} fields={fields} problems={problems} types={types} />
      {save.error && !isExplained ? <InlineError error={save.error} /> : null}
    </Dialog>
  )
}
