import { PageHeader } from '~/ui/PageHeader'

export function GraphPage() {
  return <PageHeader title="Graph" />
}
