// What a person who opens a page waits for: the largest part of it within 1.0 s (LCP), and nothing that jumps (CLS under
// 0.05), with an empty cache on this machine. Other work on the machine only makes it slower, so the best of some
// rounds counts for the time and the worst for the jumps. Unless EMERGENT_TEST_SPEED=1 the time may be 10 s, for a debug
// build of the program on a busy machine. The work of the main thread until then has a budget that holds everywhere.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, seed } from './seed'
import { say } from './seed-chat'
import { isStrict, watchThread } from './speed'
import { AGENTS, dispatch, prepareWorkflows, QUARTER, untilWorkflow } from './workflow-seed'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 180_000 })

const ROUNDS = 3
const LIMITS = { lcp: isStrict ? 1000 : 10_000, cls: 0.05, work: 600 }

let all: Awaited<ReturnType<typeof startAll>>
let pages: [name: string, path: string, ready: (page: Page) => Promise<unknown>][]
beforeAll(async () => {
  all = await startAll()
  const seeded = await seed(all.server)
  await prepareWorkflows(all.server)
  const workflow = await dispatch(all.server, { tasks: QUARTER, model: rehearsal('steady') })
  await untilWorkflow(all.server, workflow, 'completed')
  const agent = (await all.server.api<{ id: string; name: string }[]>('GET', '/api/admin/agents?limit=100')).find(({ name }) => name === AGENTS[1]!.name)!
  const conversation = await say(all.server, { message: 'How did the quarter go?', agentDefinitionId: agent.id })
  pages = [
    ['Overview', '/', (page) => page.getByRole('link', { name: 'invoice-reader' }).first().waitFor()],
    ['Runs', '/runs', (page) => page.getByRole('row').nth(5).waitFor()],
    ['Run', `/runs/${seeded.completed[0]}`, (page) => page.getByRole('log').getByText('Nothing is known about tagging yet.').first().waitFor()],
    ['Workflow', `/workflows/${workflow}`, (page) => page.locator('[data-task=edit-report][data-status=completed]').waitFor()],
    ['Chat', '/chat', (page) => page.getByText('How did the quarter go?').first().waitFor()],
    ['Conversation', `/chat/${conversation}`, (page) => page.getByText('revenue grew by 8 %').first().waitFor()],
  ]
})
afterAll(() => all?.stop())

type Shift = PerformanceEntry & { value: number; hadRecentInput: boolean; sources?: { node?: Element }[] }

/** Opens a page in a window without a cache and without input, which would end the observation. */
async function open(path: string, ready: (page: Page) => Promise<unknown>) {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.addInitScript(() => {
    const found = { lcp: 0, element: '', cls: 0, jumps: [] as string[] }
    Object.assign(globalThis, { vitals: found })
    const name = (element: Element | null | undefined) => (element ? `${element.nodeName.toLowerCase()}.${(element.getAttribute('class') ?? '').slice(0, 50)}` : '?')
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) Object.assign(found, { lcp: entry.startTime, element: name((entry as PerformanceEntry & { element?: Element }).element) })
    }).observe({ type: 'largest-contentful-paint', buffered: true })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as Shift[]) {
        if (entry.hadRecentInput) continue
        found.cls += entry.value
        found.jumps.push(`${entry.value.toFixed(3)} at ${entry.startTime.toFixed(0)} ms: ${entry.sources?.map(({ node }) => name(node)).join(', ')}`)
      }
    }).observe({ type: 'layout-shift', buffered: true })
  })
  const { spent } = await watchThread(page)
  await page.goto(all.server.url + path)
  await ready(page)
  const work = (await spent()).all
  // What arrives late may move what is there, and is part of it.
  await page.waitForTimeout(1200)
  const found = await page.evaluate(() => (globalThis as unknown as { vitals: { lcp: number; element: string; cls: number; jumps: string[] } }).vitals)
  misbehaviour.check()
  await context.close()
  return { ...found, work }
}

it('shows the largest part of a page within its time, and nothing jumps', async () => {
  const failed: string[] = []
  for (const [name, path, ready] of pages) {
    const rounds = []
    for (let round = 0; round < ROUNDS; round++) rounds.push(await open(path, ready))
    const fastest = rounds.toSorted((one, other) => one.lcp - other.lcp)[0]!
    const shakiest = rounds.toSorted((one, other) => other.cls - one.cls)[0]!
    const work = Math.min(...rounds.map((round) => round.work))
    console.log(`${name}: LCP ${fastest.lcp.toFixed(0)} ms (${fastest.element}), ${work.toFixed(0)} ms of main thread, CLS ${shakiest.cls.toFixed(4)}${shakiest.jumps.length > 0 ? `\n    ${shakiest.jumps.join('\n    ')}` : ''}`)
    if (fastest.lcp === 0 || fastest.lcp > LIMITS.lcp) failed.push(`${name}: LCP ${fastest.lcp.toFixed(0)} ms`)
    if (work > LIMITS.work) failed.push(`${name}: ${work.toFixed(0)} ms of main thread`)
    if (shakiest.cls >= LIMITS.cls) failed.push(`${name}: CLS ${shakiest.cls.toFixed(4)}: ${shakiest.jumps.join('; ')}`)
  }
  expect(failed).toEqual([])
})
