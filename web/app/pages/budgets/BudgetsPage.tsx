import { PageHeader } from '~/ui/PageHeader'

export function BudgetsPage() {
  return <PageHeader title="Budgets" />
}
