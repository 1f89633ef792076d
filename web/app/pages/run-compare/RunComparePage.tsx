import { PageHeader } from '~/ui/PageHeader'

export function RunComparePage() {
  return <PageHeader title="Compare runs" />
}
