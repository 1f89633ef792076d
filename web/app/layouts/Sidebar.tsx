import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { pendingQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { formatSeen } from '~/util/format'
import { NAVIGATION, type NavItem } from './navigation'
import { ProjectSwitcher } from './ProjectSwitcher'

function InboxCount() {
  const { allowed } = useScope('approvals:decide')
  const { data } = useQuery({ ...pendingQuery, enabled: allowed })
  const count = data?.items.length ?? 0
  if (count === 0) return null
  return (
    <span className="ml-auto rounded-full bg-accent px-1.5 text-2xs font-semibold text-on-accent">
      {formatSeen(count, Boolean(data?.cursor))}
      <span className="sr-only"> waiting</span>
    </span>
  )
}

function Item({ item, onNavigate }: { item: NavItem; onNavigate: (() => void) | undefined }) {
  const Icon = item.icon
  return (
    <li>
      <Link
        to={item.to}
        onClick={onNavigate}
        activeOptions={{ exact: item.to === '/', includeSearch: false }}
        className="flex h-7 items-center gap-2.5 rounded-md px-2 font-medium text-text-2 hover:bg-hover hover:text-text aria-[current=page]:bg-selected aria-[current=page]:text-accent-text"
      >
        <Icon aria-hidden size={16} strokeWidth={1.75} />
        {item.label}
        {item.to === '/inbox' && <InboxCount />}
      </Link>
    </li>
  )
}

export function Logo() {
  return (
    <span className="flex items-center gap-2 text-base font-semibold tracking-tight">
      <img src="/icon.svg" alt="" width={22} height={22} />
      Emergent
    </span>
  )
}

export function Sidebar({ onNavigate }: { onNavigate?: () => void }) {
  return (
    <nav aria-label="Main" className="flex h-full flex-col gap-3 overflow-y-auto px-3 py-3">
      <div className="flex h-8 items-center px-2">
        <Logo />
      </div>
      <ProjectSwitcher />
      {NAVIGATION.map((group, index) => (
        <ul key={index} className="space-y-px border-line not-first-of-type:border-t not-first-of-type:pt-3">
          {group.map((item) => (
            <Item key={item.to} item={item} onNavigate={onNavigate} />
          ))}
        </ul>
      ))}
    </nav>
  )
}
