import { PageHeader } from '~/ui/PageHeader'

export function ToolsPage() {
  return <PageHeader title="Tools" />
}
