import { PageHeader } from '~/ui/PageHeader'

export function SecretsPage() {
  return <PageHeader title="Secrets" />
}
