import { PageHeader } from '~/ui/PageHeader'

export function ConversationPage() {
  return <PageHeader title="Conversation" />
}
