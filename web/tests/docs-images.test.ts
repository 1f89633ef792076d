// Takes the pictures of docs/web.md and the README. With UPDATE_IMAGES=1 they replace those in docs/images; otherwise
// they are in tests/screenshots, and the test only shows that they can be taken.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { type Server, startAll, visit } from './harness'
import { seedDepartment } from './seed-department'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

const FOLDER = fileURLToPath(new URL(process.env.UPDATE_IMAGES ? '../../docs/images' : './screenshots', import.meta.url))
const MAX_BYTES = 150_000

let all: Awaited<ReturnType<typeof startAll>>
let seeded: Awaited<ReturnType<typeof seedDepartment>>
beforeAll(async () => {
  all = await startAll({ sample: false })
  seeded = await seedDepartment(all.server)
})
afterAll(() => all?.stop())

async function take(server: Server, name: string, path: string, ready: (page: Page) => Promise<unknown>, height = 800) {
  const { context, page, misbehaviour } = await visit(all.browser, server)
  await page.setViewportSize({ width: 1280, height })
  await page.goto(server.url + path)
  await ready(page)
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  // Playwright has no WebP, which is a third of a PNG.
  const { data } = await (await context.newCDPSession(page)).send('Page.captureScreenshot', { format: 'webp', quality: 90 })
  const bytes = Buffer.from(data, 'base64')
  expect(bytes.length).toBeLessThan(MAX_BYTES)
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(join(FOLDER, `web-${name}.webp`), bytes)
  misbehaviour.check()
  await context.close()
}

it('takes the overview', () => take(all.server, 'overview', '/', (page) => page.getByRole('link', { name: /invoice-importer/ }).first().waitFor(), 960))

it('takes the inbox', () => take(all.server, 'inbox', '/inbox', (page) => page.getByText('releasedBy').first().waitFor()))

it('takes a run', () =>
  take(all.server, 'run', `/runs/${seeded.run}`, async (page) => {
    // The list is long, and has only the entries that are in sight.
    await page.getByText(/^\d+ (of \d+ )?entries/).waitFor()
    await page.getByRole('link', { name: /risk-analyst/ }).first().waitFor()
  }))

it('takes a workflow', () =>
  take(all.server, 'workflow', `/workflows/${seeded.workflow}?task=design-tagging`, async (page) => {
    await page.getByRole('article', { name: /Discussion/ }).getByText('APPROVED. Looks complete.').waitFor()
    await page.getByRole('list', { name: 'Decisions' }).getByText('The workflow ended: completed').waitFor()
  }))

it('takes a conversation', () =>
  take(all.server, 'chat', `/chat/${seeded.talk}`, async (page) => {
    await page.getByRole('article', { name: 'Answer' }).last().getByRole('strong').first().waitFor()
    await page.getByRole('list', { name: 'Sources' }).first().waitFor()
  }))

it('takes the graph around a contract', () =>
  take(all.server, 'graph', `/graph?view=explore&from=Contract%2Fnorthwind-2026&depth=2`, async (page) => {
    await page.getByText('Depot Hamburg').first().waitFor()
    await page.locator('[data-picture][data-layout=done]').waitFor()
  }))

it('takes a first visit', async () => {
  const empty = await startAll({ sample: false })
  try {
    await take(empty.server, 'first-visit', '/', (page) => page.getByText('The settings list them all.').waitFor())
  } finally {
    await empty.stop()
  }
})
