// Something to show on every screen, and a real path for every route.
import type { Page } from 'playwright-core'
import type { Server } from './harness'
import { routes } from './routes'
import { seed } from './seed'
import { say } from './seed-chat'
import { dispatch, prepareWorkflows, QUARTER } from './workflow-seed'

type Named = { id: string; name: string }
export type Screens = Awaited<ReturnType<typeof seedScreens>>

export async function seedScreens(server: Server) {
  const runs = await seed(server)
  await prepareWorkflows(server)
  const workflow = await dispatch(server, { tasks: QUARTER })
  const researcher = (await server.api<Named[]>('GET', '/api/admin/agents?limit=100')).find((one) => one.name === 'researcher')!
  const conversation = await say(server, { message: 'What do we know about tagging?', agentDefinitionId: researcher.id })
  const document = (await server.api<Named>('POST', '/api/documents', { title: 'On-call handbook.md', mimeType: 'text/markdown', content: '# On call\n\nAnswer a page within five minutes.' })).id
  await server.api('POST', '/api/admin/mcp-servers', { name: 'tickets', transport: 'http', url: 'https://tickets.example.com/mcp', enabled: false })
  const [note] = await server.api<Named[]>('GET', '/api/graph/objects?type=Note')
  const values: Record<string, string> = {
    '/runs/$runId': `/runs/${runs.completed[0]}`,
    '/runs/compare': `/runs/compare?left=${runs.completed[0]}&right=${runs.completed[1]}`,
    '/workflows/$workflowId': `/workflows/${workflow}`,
    '/chat/$conversationId': `/chat/${conversation}`,
    '/graph/objects/$objectId': `/graph/objects/${note!.id}`,
    '/documents/$documentId': `/documents/${document}`,
    '/agents/$agentId': `/agents/${researcher.id}`,
    '/mcp-servers/$name': '/mcp-servers/tickets',
    '/products/$name': '/products/emergent.research',
  }
  return { runs, paths: new Map(routes().map((route) => [route, values[route] ?? route])) }
}

/** Opens a page and waits until nothing of it is loading. */
export async function openScreen(page: Page, address: string) {
  await page.goto(address)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.getByRole('status').filter({ hasText: /^Live$/ }).waitFor()
  await page.waitForFunction(() => !document.querySelector('main [aria-busy=true], main [aria-label=Loading]'))
}
