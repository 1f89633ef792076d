import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Ellipsis, Pencil, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import { useSession } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button, IconButton } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { Menu } from '~/ui/Menu'
import { toast } from '~/ui/toast'
import type { Conversation } from './chat-queries'

/** Renames and deletes a conversation. */
export function ConversationMenu({ conversation, leaveTo }: { conversation: Conversation; leaveTo?: '/chat' }) {
  const [dialog, setDialog] = useState<'rename' | 'delete'>()
  const session = useSession()
  const { author } = conversation
  const mayDelete = session?.scopes.includes('admin:write') || (author.type === 'token' && author.id === session?.tokenId)
  const close = () => setDialog(undefined)
  return (
    <>
      <Menu
        align="end"
        label={`Actions for ${conversation.title || 'this conversation'}`}
        trigger={
          <IconButton label={`Actions for ${conversation.title || 'this conversation'}`} size="sm">
            <Ellipsis aria-hidden size={16} />
          </IconButton>
        }
        items={[
          { label: 'Rename…', icon: <Pencil aria-hidden size={14} />, onSelect: () => setDialog('rename') },
          { label: 'Delete…', icon: <Trash2 aria-hidden size={14} />, danger: true, disabledReason: mayDelete ? undefined : 'Only its author may delete it, or a token with admin:write.', onSelect: () => setDialog('delete') },
        ]}
      />
      {dialog === 'rename' && <RenameDialog conversation={conversation} onClose={close} />}
      {dialog === 'delete' && <DeleteDialog conversation={conversation} onClose={close} leaveTo={leaveTo} />}
    </>
  )
}

function useRefresh(id: string) {
  const client = useQueryClient()
  return () => {
    void client.invalidateQueries({ queryKey: keys.conversations })
    void client.invalidateQueries({ queryKey: keys.conversation(id) })
  }
}

function RenameDialog({ conversation, onClose }: { conversation: Conversation; onClose: () => void }) {
  const refresh = useRefresh(conversation.id)
  const [title, setTitle] = useState(conversation.title)
  const rename = useMutationOnce({
    mutationFn: () => unwrap(api.PATCH('/api/chat/conversations/{conversationId}', { params: { path: { conversationId: conversation.id } }, body: { title: title.trim() } })),
    onSuccess: () => {
      refresh()
      onClose()
    },
  })
  const isField = rename.error instanceof ApiError && rename.error.status === 400
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => rename.mutate()}
      size="sm"
      title="Rename the conversation"
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button variant="primary" busy={rename.isPending} disabledReason={title.trim() ? undefined : 'Write a title first.'} type="submit">
            Rename
          </Button>
        </>
      }
    >
      <Field label="Title" problem={isField ? rename.error!.message : undefined}>
        {(ids) => <Input {...ids} value={title} onChange={(event) => setTitle(event.target.value)} />}
      </Field>
      {!isField && <InlineError error={rename.error} />}
    </Dialog>
  )
}

function DeleteDialog({ conversation, onClose, leaveTo }: { conversation: Conversation; onClose: () => void; leaveTo: '/chat' | undefined }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutationOnce({
    mutationFn: () => unwrap(api.DELETE('/api/chat/conversations/{conversationId}', { params: { path: { conversationId: conversation.id } } })),
    onSuccess: async () => {
      toast('The conversation was deleted.')
      onClose()
      if (leaveTo) await navigate({ to: leaveTo, search: {} })
      client.removeQueries({ queryKey: keys.conversation(conversation.id) })
      void client.invalidateQueries({ queryKey: keys.conversations })
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title="Delete the conversation" action="Delete the conversation" danger busy={remove.isPending} error={remove.error}>
      <p>
        “{conversation.title || 'New conversation'}” with {conversation.messageCount} messages is not visible any more and cannot be restored. {conversation.status === 'answering' && 'The answer that is being written ends. '}The runs of its answers stay.
      </p>
    </ConfirmDialog>
  )
}
