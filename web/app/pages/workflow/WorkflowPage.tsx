import { PageHeader } from '~/ui/PageHeader'

export function WorkflowPage() {
  return <PageHeader title="Workflow" />
}
