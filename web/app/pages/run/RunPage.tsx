import { PageHeader } from '~/ui/PageHeader'

export function RunPage() {
  return <PageHeader title="Run" />
}
