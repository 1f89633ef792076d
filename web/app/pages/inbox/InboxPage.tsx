import { PageHeader } from '~/ui/PageHeader'

export function InboxPage() {
  return <PageHeader title="Inbox" />
}
