import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { ChevronsUpDown } from 'lucide-react'
import { projectsQuery } from '~/api/queries'
import { useScope, useSession } from '~/api/session'
import type { RawSearch } from '~/hooks/use-url-state'
import { Menu } from '~/ui/Menu'
import { ProjectIcon } from './navigation'

const DEFAULT = 'default'

/** Chooses the project, which the URL holds. It is hidden when the token has only one. */
export function ProjectSwitcher() {
  const session = useSession()
  const navigate = useNavigate()
  const { project } = useSearch({ strict: false }) as RawSearch
  // Only such a token may list the projects.
  const { allowed } = useScope('admin:read')
  const spans = allowed && !session?.project
  const { data } = useQuery({ ...projectsQuery, enabled: spans })
  const projects = data?.items ?? []
  if (!spans || projects.length < 2) return null
  const current = projects.find((one) => one.name === (project ?? DEFAULT) || one.id === project)
  return (
    <Menu
      label="Projects"
      align="start"
      trigger={
        <button type="button" className="flex h-8 w-full items-center gap-2 rounded-md border border-line bg-surface px-2 text-sm font-medium hover:bg-hover">
          <ProjectIcon aria-hidden size={14} className="text-text-3" />
          <span className="min-w-0 flex-1 truncate text-left">
            <span className="sr-only">Project: </span>
            {current?.name ?? project ?? DEFAULT}
          </span>
          <ChevronsUpDown aria-hidden size={14} className="text-text-3" />
        </button>
      }
      items={projects.map((one) => ({
        label: one.name,
        checked: one.id === current?.id,
        onSelect: () => void navigate({ to: '/', search: { project: one.name === DEFAULT ? undefined : one.name } }),
      }))}
    />
  )
}
