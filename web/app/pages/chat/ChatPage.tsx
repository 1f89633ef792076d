import { PageHeader } from '~/ui/PageHeader'

export function ChatPage() {
  return <PageHeader title="Chat" />
}
