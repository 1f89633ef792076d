import { PageHeader } from '~/ui/PageHeader'

export function ProductPage() {
  return <PageHeader title="Product" />
}
