// All routes. Each page is a file of its own that is loaded when it is opened; a new page needs one line here.
import { createRootRoute, createRoute, createRouter, retainSearchParams } from '@tanstack/react-router'
import type { RawSearch } from './hooks/use-url-state'
import { NotFound, PageFailure } from './layouts/Failures'
import { SessionGate } from './layouts/SessionGate'
import { Shell } from './layouts/Shell'
import { lazyPage } from './util/lazy-page'

const root = createRootRoute({
  // The values of the URL are texts; each page reads those that it knows (`useUrlState`).
  validateSearch: (raw: Record<string, unknown>): RawSearch => raw as RawSearch,
  search: { middlewares: [retainSearchParams(['project'])] },
  component: () => (
    <SessionGate>
      <Shell />
    </SessionGate>
  ),
  notFoundComponent: NotFound,
  errorComponent: PageFailure,
})

const getParentRoute = () => root

const overview = createRoute({ getParentRoute, path: '/', component: lazyPage(() => import('./pages/overview/OverviewPage'), 'OverviewPage') })
const inbox = createRoute({ getParentRoute, path: '/inbox', component: lazyPage(() => import('./pages/inbox/InboxPage'), 'InboxPage') })
const runs = createRoute({ getParentRoute, path: '/runs', component: lazyPage(() => import('./pages/runs/RunsPage'), 'RunsPage') })
const runCompare = createRoute({ getParentRoute, path: '/runs/compare', component: lazyPage(() => import('./pages/run-compare/RunComparePage'), 'RunComparePage') })
const run = createRoute({ getParentRoute, path: '/runs/$runId', component: lazyPage(() => import('./pages/run/RunPage'), 'RunPage') })
const workflows = createRoute({ getParentRoute, path: '/workflows', component: lazyPage(() => import('./pages/workflows/WorkflowsPage'), 'WorkflowsPage') })
const workflow = createRoute({ getParentRoute, path: '/workflows/$workflowId', component: lazyPage(() => import('./pages/workflow/WorkflowPage'), 'WorkflowPage') })
const chat = createRoute({ getParentRoute, path: '/chat', component: lazyPage(() => import('./pages/chat/ChatPage'), 'ChatPage') })
const conversation = createRoute({ getParentRoute, path: '/chat/$conversationId', component: lazyPage(() => import('./pages/conversation/ConversationPage'), 'ConversationPage') })
const graph = createRoute({ getParentRoute, path: '/graph', component: lazyPage(() => import('./pages/graph/GraphPage'), 'GraphPage') })
const object = createRoute({ getParentRoute, path: '/graph/objects/$objectId', component: lazyPage(() => import('./pages/object/ObjectPage'), 'ObjectPage') })
const documents = createRoute({ getParentRoute, path: '/documents', component: lazyPage(() => import('./pages/documents/DocumentsPage'), 'DocumentsPage') })
const document = createRoute({ getParentRoute, path: '/documents/$documentId', component: lazyPage(() => import('./pages/document/DocumentPage'), 'DocumentPage') })
const agents = createRoute({ getParentRoute, path: '/agents', component: lazyPage(() => import('./pages/agents/AgentsPage'), 'AgentsPage') })
const agent = createRoute({ getParentRoute, path: '/agents/$agentId', component: lazyPage(() => import('./pages/agent/AgentPage'), 'AgentPage') })
const tools = createRoute({ getParentRoute, path: '/tools', component: lazyPage(() => import('./pages/tools/ToolsPage'), 'ToolsPage') })
const mcpServers = createRoute({ getParentRoute, path: '/mcp-servers', component: lazyPage(() => import('./pages/mcp-servers/McpServersPage'), 'McpServersPage') })
const mcpServer = createRoute({ getParentRoute, path: '/mcp-servers/$name', component: lazyPage(() => import('./pages/mcp-server/McpServerPage'), 'McpServerPage') })
const products = createRoute({ getParentRoute, path: '/products', component: lazyPage(() => import('./pages/products/ProductsPage'), 'ProductsPage') })
const product = createRoute({ getParentRoute, path: '/products/$name', component: lazyPage(() => import('./pages/product/ProductPage'), 'ProductPage') })
const schedules = createRoute({ getParentRoute, path: '/schedules', component: lazyPage(() => import('./pages/schedules/SchedulesPage'), 'SchedulesPage') })
const budgets = createRoute({ getParentRoute, path: '/budgets', component: lazyPage(() => import('./pages/budgets/BudgetsPage'), 'BudgetsPage') })
const tokens = createRoute({ getParentRoute, path: '/tokens', component: lazyPage(() => import('./pages/tokens/TokensPage'), 'TokensPage') })
const secrets = createRoute({ getParentRoute, path: '/secrets', component: lazyPage(() => import('./pages/secrets/SecretsPage'), 'SecretsPage') })
const audit = createRoute({ getParentRoute, path: '/audit', component: lazyPage(() => import('./pages/audit/AuditPage'), 'AuditPage') })
const settings = createRoute({ getParentRoute, path: '/settings', component: lazyPage(() => import('./pages/settings/SettingsPage'), 'SettingsPage') })

const routeTree = root.addChildren([
  overview,
  inbox,
  runs,
  runCompare,
  run,
  workflows,
  workflow,
  chat,
  conversation,
  graph,
  object,
  documents,
  document,
  agents,
  agent,
  tools,
  mcpServers,
  mcpServer,
  products,
  product,
  schedules,
  budgets,
  tokens,
  secrets,
  audit,
  settings,
])

/** Values of the URL are plain texts, so that links stay readable. */
const parseSearch = (text: string): RawSearch => Object.fromEntries(new URLSearchParams(text))
function stringifySearch(search: Record<string, unknown>): string {
  const entries = Object.entries(search).filter((entry): entry is [string, string] => typeof entry[1] === 'string' && entry[1] !== '')
  return entries.length > 0 ? `?${new URLSearchParams(entries)}` : ''
}

export const router = createRouter({
  routeTree,
  parseSearch,
  stringifySearch,
  defaultPreload: 'intent',
  scrollRestoration: true,
  defaultErrorComponent: PageFailure,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
