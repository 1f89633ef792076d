// The inbox of a purchasing department with a browser in front of it: the set-up of the tests about requests.
import { afterAll, afterEach, beforeAll } from 'vitest'
import { startAll, visit } from './harness'
import { type Item, seedDesk } from './seed-inbox'

type All = Awaited<ReturnType<typeof startAll>>

/** Decides what is pending until nothing is: what one test leaves behind must not be what the next one opens. */
async function clear(server: All['server']) {
  const end = Date.now() + 60_000
  for (;;) {
    const items = await server.api<Item[]>('GET', '/api/approvals?status=pending&limit=100')
    if (items.length === 0) return
    if (Date.now() > end) throw new Error(`the inbox is not empty: ${items.map(({ kind, title }) => `${kind} ${title}`).join(', ')}`)
    // A workflow is cancelled, and a discussion accepted. Either may be over already, because the other one was decided.
    for (const { id, kind } of items) await server.api('POST', `/api/approvals/${id}/decide`, { decision: kind === 'discussion' ? 'approve' : 'deny' }).catch(() => undefined)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Starts everything before the tests of a file and stops it after them. Each test begins with an empty inbox. */
export function openDesk() {
  let all: All | undefined
  beforeAll(async () => {
    all = await startAll()
    await seedDesk(all.server)
  })
  afterEach(() => (all ? clear(all.server) : undefined))
  afterAll(() => all?.stop())
  const desk = {
    get server() {
      return all!.server
    },
    get browser() {
      return all!.browser
    },
    read: (id: string) => desk.server.api<Item>('GET', `/api/approvals/${id}`),
    /** Opens a request, and waits until the page hears events. */
    async open(id: string, statuses: number[] = []) {
      const visitor = await visit(desk.browser, desk.server, { expected: { statuses } })
      await visitor.page.goto(`${desk.server.url}/inbox?item=${id}`)
      await visitor.page.getByRole('article', { name: 'The request' }).waitFor()
      await visitor.page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
      return visitor
    },
  }
  return desk
}
