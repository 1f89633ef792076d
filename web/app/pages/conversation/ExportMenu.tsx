import { useMutation } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { exportConversation } from '~/api/transfer'
import type { Conversation } from '~/pages/chat/chat-queries'
import { Button } from '~/ui/Button'
import { Menu } from '~/ui/Menu'
import { toast } from '~/ui/toast'
import { download } from '~/util/download'

/** Gives the conversation as a file: a text to read, or JSON for programs. */
export function ExportMenu({ conversation, title }: { conversation: Conversation; title: string }) {
  const save = useMutation({
    mutationFn: async (format: 'markdown' | 'jsonl') => download(await exportConversation(conversation.id, format), `${title}.${format === 'markdown' ? 'md' : 'jsonl'}`),
    onError: (error) => toast('The conversation could not be exported.', { kind: 'failed', description: error.message }),
  })
  return (
    <Menu
      label="Export as"
      trigger={<Button busy={save.isPending} icon={<Download aria-hidden size={14} />}>Export…</Button>}
      items={[
        { label: 'Markdown, to read', onSelect: () => save.mutate('markdown') },
        { label: 'JSON lines, for programs', onSelect: () => save.mutate('jsonl') },
      ]}
    />
  )
}
