// Delete, restore and revert: each asks first and says what will happen.
import { useQueryClient } from '@tanstack/react-query'
import { api, unwrap } from '~/api/client'
import type { GraphObject } from '~/api/graph'
import { keys } from '~/api/keys'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Dialog } from '~/ui/Dialog'
import { Diff } from '~/ui/Diff'
import { InlineError } from '~/ui/ErrorState'
import { toast } from '~/ui/toast'
import { titleOf } from '~/util/objects'
import { propertyChanges } from './object-draft'
import { contentOf } from './shape'

type Props = { object: GraphObject; disabledReason?: string | undefined; onClose: () => void }

function useChange(onClose: () => void, change: () => Promise<GraphObject>, told: (object: GraphObject) => string) {
  const client = useQueryClient()
  return useMutationOnce({
    mutationFn: change,
    onSuccess: (object) => {
      toast(told(object))
      void client.invalidateQueries({ queryKey: keys.objects })
      onClose()
    },
  })
}

export function DeleteDialog({ object, disabledReason, onClose }: Props) {
  const remove = useChange(
    onClose,
    () => unwrap(api.DELETE('/api/graph/objects/{id}', { params: { path: { id: object.id }, query: { expectedVersion: object.version } } })),
    () => `${titleOf(object)} was deleted.`,
  )
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Delete ${titleOf(object)}`} action="Delete the object" danger busy={remove.isPending} disabledReason={disabledReason} error={remove.error}>
      <p>The object and its relationships leave the graph. Its history stays, and it can be restored with its relationships.</p>
    </ConfirmDialog>
  )
}

export function RestoreDialog({ object, disabledReason, onClose }: Props) {
  const restore = useChange(
    onClose,
    () => unwrap(api.POST('/api/graph/objects/{id}/restore', { params: { path: { id: object.id } } })),
    (next) => `${titleOf(next)} was restored.`,
  )
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => restore.mutate()} title={`Restore ${titleOf(object)}`} action="Restore the object" busy={restore.isPending} disabledReason={disabledReason} error={restore.error}>
      <p>The object is back as it was before it was deleted, with the relationships that were deleted with it.</p>
    </ConfirmDialog>
  )
}

export function RevertDialog({ object, to, disabledReason, onClose }: Props & { to: GraphObject }) {
  const revert = useChange(
    onClose,
    () =>
      unwrap(
        api.PATCH('/api/graph/objects/{id}', {
          params: { path: { id: object.id } },
          body: { type: to.type, key: to.key ?? null, status: to.status ?? null, labels: to.labels, properties: propertyChanges(object.properties, to.properties), expectedVersion: object.version },
        }),
      ),
    (next) => `Version ${next.version} says what version ${to.version} said.`,
  )
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Revert to version ${to.version}`}
      description={`A new version is written with what version ${to.version} said. Nothing of the history is lost, and relationships stay as they are.`}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button variant="primary" busy={revert.isPending} disabledReason={disabledReason} onClick={() => revert.mutate()}>
            Revert to version {to.version}
          </Button>
        </>
      }
    >
      <Diff before={contentOf(object)} after={contentOf(to)} label="What the revert changes" />
      <InlineError error={revert.error} />
    </Dialog>
  )
}
