import { useQuery } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { projectsQuery } from '~/api/queries'
import { useScope, useSession } from '~/api/session'
import type { RawSearch } from '~/hooks/use-url-state'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { ProjectForm } from './ProjectForm'
import { ProjectsCard } from './ProjectsCard'
import { ModelsCard, ServerCard } from './ServerCards'
import { WebhookForm } from './WebhookForm'

export function SettingsPage() {
  const { allowed, reason } = useScope('admin:read')
  const session = useSession()
  const { project } = useSearch({ strict: false }) as RawSearch
  const query = useQuery({ ...projectsQuery, enabled: allowed })
  const wanted = session?.project ?? project ?? 'default'
  const current = query.data?.items.find((one) => one.id === wanted || one.name === wanted)
  return (
    <>
      <PageHeader title="Settings" description="This project, the server that it runs on, and the other projects." />
      {!allowed ? (
        <Panel><EmptyState title="You cannot see settings.">{reason}</EmptyState></Panel>
      ) : (
        <div className="grid items-start gap-4 xl:grid-cols-2">
          <div className="grid gap-4">
            <Card title="This project">
              <Loaded query={query} what="The project could not be loaded.">{() => (current ? <ProjectForm key={current.id} project={current} /> : <EmptyState title="This project was not found." />)}</Loaded>
            </Card>
            <Card title="Webhook">
              <Loaded query={query} what="The webhook could not be loaded." rows={3}>{() => current && <WebhookForm key={current.id} project={current} />}</Loaded>
            </Card>
            <ProjectsCard currentId={current?.id} />
          </div>
          <div className="grid gap-4">
            <ModelsCard />
            <ServerCard />
          </div>
        </div>
      )}
    </>
  )
}
