import { PageHeader } from '~/ui/PageHeader'

export function TokensPage() {
  return <PageHeader title="Tokens" />
}
