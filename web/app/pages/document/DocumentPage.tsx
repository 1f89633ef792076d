import { PageHeader } from '~/ui/PageHeader'

export function DocumentPage() {
  return <PageHeader title="Document" />
}
