import { Bot, Boxes, CalendarClock, FileText, Gauge, Inbox, KeyRound, LayoutDashboard, ListChecks, type LucideIcon, MessageSquare, Package, Plug, ScrollText, Settings, Share2, Vault, Workflow, Wrench } from 'lucide-react'
import type { Scope } from '~/api/types'

export type NavItem = { to: string; label: string; icon: LucideIcon; key?: string; scope?: Scope }

/** The pages of the sidebar, in groups. `key` opens the page after `g`. */
export const NAVIGATION: NavItem[][] = [
  [
    { to: '/', label: 'Overview', icon: LayoutDashboard, key: 'o' },
    { to: '/inbox', label: 'Inbox', icon: Inbox, key: 'i' },
    { to: '/runs', label: 'Runs', icon: ListChecks, key: 'r' },
    { to: '/workflows', label: 'Workflows', icon: Workflow, key: 'w' },
    { to: '/chat', label: 'Chat', icon: MessageSquare, key: 'c' },
    { to: '/graph', label: 'Graph', icon: Share2, key: 'n' },
    { to: '/documents', label: 'Documents', icon: FileText, key: 'd' },
  ],
  [
    { to: '/agents', label: 'Agents', icon: Bot, key: 'a' },
    { to: '/tools', label: 'Tools', icon: Wrench, key: 't' },
    { to: '/mcp-servers', label: 'MCP servers', icon: Plug, key: 'm' },
    { to: '/products', label: 'Products', icon: Package, key: 'p' },
  ],
  [
    { to: '/schedules', label: 'Schedules', icon: CalendarClock },
    { to: '/budgets', label: 'Budgets', icon: Gauge },
    { to: '/tokens', label: 'Tokens', icon: KeyRound },
    { to: '/secrets', label: 'Secrets', icon: Vault },
    { to: '/audit', label: 'Audit', icon: ScrollText },
    { to: '/settings', label: 'Settings', icon: Settings },
  ],
]

export const PAGES = NAVIGATION.flat()
export const ProjectIcon = Boxes
