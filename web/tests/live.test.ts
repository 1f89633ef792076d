// What a browser shows stays true while servers crash, tabs come and go, and logins end.
import type { Page, Request } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'

const SCRIPTS = {
  // Each answer is written slowly enough to kill the server in the middle of it.
  clerk: `
rules:
  - when: { step: 1 }
    chunk_delay_ms: 120
    answer:
      thought: The delivery has to be entered before it can be compared.
      text: "The delivery note names forty pallets for the depot in Bremen. I enter it first and look up the order afterwards, because the order may have been changed since March."
      calls: [{ tool: entities_create, input: { type: Delivery, key: bremen-40, properties: { pallets: 40, depot: Bremen } } }]
  - when: { step: 2 }
    answer:
      text: I compare it with the order.
      calls:
        - { tool: entities_get, input: { id: "Order/bremen-march" } }
        - { tool: entities_get, input: { id: "Order/bremen-april" } }
  - when: {}
    chunk_delay_ms: 120
    answer: { text: "Forty pallets were delivered and thirty-eight were ordered. The two others belong to the order of April, which the depot confirmed by telephone. Nothing has to be sent back, and the invoice can be paid as it is." }
`,
  greeter: `
rules:
  - when: {}
    answer: { text: The figures of the day are in the report. }
`,
}

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  writeScripts(all.server, SCRIPTS)
  await all.server.api('POST', '/api/graph/objects', { type: 'Order', key: 'bremen-march', properties: { pallets: 38 } })
  for (const agent of [
    { name: 'delivery-clerk', description: 'Enters deliveries and compares them with orders.', systemPrompt: 'You enter deliveries and compare them with orders.', tools: ['entities_*'], model: rehearsal('clerk') },
    { name: 'daily-report', description: 'Writes the report of the day.', model: rehearsal('greeter') },
  ])
    await all.server.api('POST', '/api/admin/agents', agent)
})
afterAll(() => all?.stop())

type Message = { id: string; role: string; stepNumber: number; content: { text: string; thoughts?: string } }
type Call = { id: string; toolName: string; status: string }
type Event = { type: string; seq?: number | null }
const isLive = (page: Page) => page.getByRole('status').filter({ hasText: /^Live$/ }).waitFor()

/** Everything that the server has recorded about a run. */
async function recordOf(runId: string) {
  const { agentId } = await all.server.api<{ agentId: string }>('GET', `/api/admin/runs/${runId}`)
  const base = `/api/admin/agents/${agentId}/runs/${runId}`
  const messages = await all.server.api<Message[]>('GET', `${base}/messages?limit=100`)
  const calls = await all.server.api<Call[]>('GET', `${base}/tool-calls?limit=100`)
  // The stream of a run that is over ends by itself.
  const stream = await fetch(`${all.server.url}${base}/events`, { headers: { Authorization: `Bearer ${all.server.token}`, Accept: 'text/event-stream' } })
  const events = [...(await stream.text()).matchAll(/^data: ?(.*)$/gm)].map((line) => JSON.parse(line[1]!) as Event)
  return { messages: messages.filter((one) => one.role !== 'tool_result'), calls, events }
}

/** What a page shows of a run, entry by entry. */
const shownOn = (page: Page) =>
  page.locator('[data-item]').evaluateAll((items) =>
    items.map((item) => ({
      id: item.getAttribute('data-item')!,
      kind: item.querySelector('article') ? 'message' : item.querySelector('button[aria-expanded]') ? 'call' : 'notice',
      texts: [...item.querySelectorAll('article p')].map((text) => text.textContent ?? ''),
    })),
  )

it('shows exactly the record of a run that was followed while the server was killed, twice', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [502] } })
  await page.setViewportSize({ width: 1280, height: 2400 })
  const id = await trigger(all.server, 'delivery-clerk', 'Enter the delivery of today and compare it with the order.')
  await page.goto(`${all.server.url}/runs/${id}`)
  const live = page.locator('[data-live]')
  for (const words of ['forty pallets', 'Forty pallets were delivered']) {
    await live.getByText(words).waitFor()
    await all.server.kill()
    await page.getByText('Reconnecting').first().waitFor()
    await all.server.restart()
  }
  await untilStatus(all.server, id, 'completed')
  await page.getByText('Ended: completed').waitFor()
  expect(await live.count()).toBe(0)

  const { messages, calls, events } = await recordOf(id)
  const shown = await shownOn(page)
  const idsOf = (kind: string) => shown.filter((one) => one.kind === kind).map((one) => one.id)
  expect(new Set(shown.map((one) => one.id)).size, 'an entry is doubled').toBe(shown.length)
  expect(idsOf('message')).toEqual(messages.map((one) => one.id))
  expect(idsOf('call').toSorted()).toEqual(calls.map((one) => one.id).toSorted())
  // Each message with its whole text, as it was recorded after it had been streamed, some of it twice.
  for (const message of messages.filter((one) => one.role === 'assistant')) {
    expect(shown.find((one) => one.id === message.id)?.texts).toEqual([message.content.thoughts, message.content.text].filter(Boolean))
  }
  const others = events.filter((one) => one.seq && !['message', 'tool_started', 'tool_completed'].includes(one.type))
  expect(idsOf('notice')).toEqual(others.map((one) => `e${one.seq}`))
  expect(await page.getByText('Continued from its record').count()).toBe(2)
  expect(await page.getByRole('log').getByRole('button', { name: /entities_get/ }).count()).toBe(2)
  // What was written is there once, although the server died after it.
  expect(await all.server.api<object[]>('GET', '/api/graph/objects?type=Delivery')).toHaveLength(1)

  await page.reload()
  await page.getByText('Ended: completed').waitFor()
  expect(await shownOn(page)).toEqual(shown)
  expect(misbehaviour.found.filter((one) => !/ERR_|net::|502/.test(one))).toEqual([])
  await context.close()
})

it('shares one connection among seven tabs, and another tab takes over when its holder is closed', async () => {
  const first = await visit(all.browser, all.server)
  const paths = ['/runs', '/runs?status=completed', '/runs?agent=daily-report', '/runs', '/runs', '/runs', '/runs']
  const open = new Map<Request, Page>()
  let opened = 0
  const watch = (page: Page) => {
    page.on('request', (request) => {
      if (new URL(request.url()).pathname !== '/api/events') return
      open.set(request, page)
      opened++
    })
    page.on('requestfinished', (request) => void open.delete(request))
    page.on('requestfailed', (request) => void open.delete(request))
    page.on('close', () => open.forEach((owner, request) => owner === page && open.delete(request)))
  }
  const pages = [first.page]
  while (pages.length < paths.length) pages.push(await first.context.newPage())
  for (const page of pages.slice(1)) first.misbehaviour.watch(page, all.server.url, {})
  for (const [index, page] of pages.entries()) {
    watch(page)
    await page.goto(all.server.url + paths[index]!)
    await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor()
  }
  const allSee = async (tabs: Page[], what: string) => {
    const run = await trigger(all.server, 'daily-report', what)
    await Promise.all(tabs.map((tab) => tab.locator(`a[href="/runs/${run}"]`).waitFor()))
    return run
  }
  await Promise.all(pages.map(isLive))
  expect(opened).toBe(1)
  await allSee(pages, 'Report the figures of Monday.')
  expect([open.size, opened]).toEqual([1, 1])

  const leader = [...open.values()][0]!
  const others = pages.filter((page) => page !== leader)
  // A run that ends between the two leaders is not missed.
  const [between] = await Promise.all([trigger(all.server, 'daily-report', 'Report the figures of Tuesday.'), leader.close()])
  await Promise.all(others.map((tab) => tab.locator(`a[href="/runs/${between}"]`).waitFor()))
  await Promise.all(others.map(isLive))
  await allSee(others, 'Report the figures of Wednesday.')
  expect([open.size, opened]).toEqual([1, 2])
  expect(others).toContain([...open.values()][0])
  first.misbehaviour.check()
  await first.context.close()
})

it('logs every tab of a browser out when its token is revoked, and no other browser', async () => {
  const token = await all.server.api<{ id: string; token: string }>('POST', '/api/tokens', { name: 'Visitor', scopes: ['graph:read', 'agents:read', 'admin:read'] })
  const visitor = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  const other = await visit(all.browser, all.server)
  await other.page.goto(`${all.server.url}/runs`)
  await visitor.page.goto(`${all.server.url}/runs?status=completed`)
  await visitor.page.getByLabel('Token').fill(token.token)
  await visitor.page.keyboard.press('Enter')
  await isLive(visitor.page)
  const second = await visitor.context.newPage()
  await second.goto(`${all.server.url}/graph`)
  await isLive(second)
  await isLive(other.page)

  await all.server.api('DELETE', `/api/tokens/${token.id}`)
  for (const page of [visitor.page, second]) {
    await page.getByRole('alert').filter({ hasText: 'Your login has ended' }).waitFor()
    await page.getByLabel('Token').waitFor()
    expect(await page.getByRole('navigation').count()).toBe(0)
  }
  // The cookie is worth nothing any more.
  const refused = await visitor.page.evaluate(() => fetch('/api/admin/runs').then((response) => response.status))
  expect(refused).toBe(401)
  await isLive(other.page)
  visitor.misbehaviour.check()
  other.misbehaviour.check()
  await visitor.context.close()
  await other.context.close()
})
