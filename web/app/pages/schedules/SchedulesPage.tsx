import { PageHeader } from '~/ui/PageHeader'

export function SchedulesPage() {
  return <PageHeader title="Schedules" />
}
