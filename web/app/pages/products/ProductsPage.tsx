import { PageHeader } from '~/ui/PageHeader'

export function ProductsPage() {
  return <PageHeader title="Products" />
}
