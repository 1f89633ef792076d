import { PageHeader } from '~/ui/PageHeader'

export function ObjectPage() {
  return <PageHeader title="Object" />
}
