import { PageHeader } from '~/ui/PageHeader'

export function WorkflowsPage() {
  return <PageHeader title="Workflows" />
}
