import { PageHeader } from '~/ui/PageHeader'

export function AuditPage() {
  return <PageHeader title="Audit" />
}
