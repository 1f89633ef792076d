import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import type { Document } from '~/api/transfer'
import type { Agent } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Field, Select } from '~/ui/Field'
import { toast } from '~/ui/toast'
import { randomKey } from '~/util/random-key'
import { againText } from '../documents/extraction-states'

type Props = { document: Document; disabledReason: string | undefined; onClose: () => void }

export function DeleteDocumentDialog({ document, disabledReason, onClose }: Props) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutationOnce({
    mutationFn: () => unwrap(api.DELETE('/api/documents/{id}', { params: { path: { id: document.id } } })),
    onSuccess: async () => {
      toast(`${document.title} was deleted.`)
      await navigate({ to: '/documents', replace: true })
      void client.invalidateQueries({ queryKey: keys.documents })
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Delete ${document.title}`} action="Delete the document" danger busy={remove.isPending} disabledReason={disabledReason} error={remove.error}>
      <p>The document and its passages can no longer be searched. This cannot be undone, but the same file can be uploaded again.</p>
      <p>What agents wrote from it stays in the graph; its sources then say that the document was deleted.</p>
    </ConfirmDialog>
  )
}

/** Starts an agent with the document, as a new document starts it. */
export function ReadAgainDialog({ document, readers, disabledReason, onClose }: Props & { readers: Agent[] }) {
  const client = useQueryClient()
  const [chosen, setName] = useState('')
  const name = chosen || (readers[0]?.name ?? '')
  const [key] = useState(randomKey)
  const start = useMutationOnce({
    mutationFn: async () => {
      const { items: chunks } = await unwrapPage(api.GET('/api/documents/{id}/chunks', { params: { path: { id: document.id }, query: { limit: 20 } } }))
      const shown = chunks.map(({ id, index, heading, text }) => ({ id, index, heading, text }))
      const goesOn = document.chunkCount > shown.length ? { chunksGoOnFrom: shown.length } : {}
      return unwrap(
        api.POST('/api/admin/agents/{agentId}/trigger', {
          params: { path: { agentId: name }, header: { 'Idempotency-Key': key } },
          body: { input: againText(document), context: { event: 'on_document_ingested', document: { id: document.id, title: document.title, mimeType: document.mimeType, chunks: shown, ...goesOn } } },
        }),
      )
    },
    onSuccess: () => {
      toast(`${name} reads the document.`)
      void client.invalidateQueries({ queryKey: keys.extraction })
      onClose()
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => start.mutate()} title="Read the document again" action={`Start ${name}`} busy={start.isPending} disabledReason={disabledReason} error={start.error}>
      <p>The agent reads the passages and completes what it finds in the graph. What is known already is not doubled.</p>
      {readers.length > 1 && <Field label="Agent">{(ids) => <Select {...ids} value={name} onChange={(event) => setName(event.target.value)} options={readers.map((agent) => ({ value: agent.name, label: agent.name }))} />}</Field>}
    </ConfirmDialog>
  )
}
