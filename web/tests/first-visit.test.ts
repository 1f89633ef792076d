import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'

type Workflow = { id: string; status: string; description: string }

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll({ sample: false })
})
afterAll(() => all?.stop())

it('leads a first visit in both themes and widths', { timeout: 240_000 }, () =>
  showEverywhere(all.browser, all.server, 'first-visit', '/', async (page) => {
    await page.getByRole('button', { name: 'Run the demo…' }).waitFor()
    await page.getByText('The settings list them all.').waitFor()
  }))

it('stays away once it was dismissed', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  await page.getByRole('button', { name: 'Dismiss' }).click()
  await page.getByRole('button', { name: 'Run the demo…' }).waitFor({ state: 'detached' })
  await page.reload()
  await page.getByText('No agent is running.').waitFor()
  expect(await page.getByRole('button', { name: 'Run the demo…' }).count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('runs the demo after its plan was accepted, to its end, and goes away', { timeout: 240_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  await page.getByRole('button', { name: 'Run the demo…' }).click()
  await page.getByText('What it will use, if you accept').waitFor()
  expect(await all.server.api('GET', '/api/products')).toEqual([])
  await page.getByRole('button', { name: 'Accept and run the demo' }).click()
  await page.waitForURL(/\/workflows\/[0-9a-f-]{36}/, { timeout: 60_000 })
  const id = /workflows\/([0-9a-f-]{36})/.exec(page.url())?.[1]
  const end = Date.now() + 150_000
  for (;;) {
    const { status } = await all.server.api<Workflow>('GET', `/api/coordination/workflows/${id}`)
    if (status === 'completed') break
    if (!['planning', 'running'].includes(status) || Date.now() > end) throw new Error(`the demo is ${status}`)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  expect((await all.server.api<{ enabled: boolean }[]>('GET', '/api/admin/mcp-servers')).filter((one) => one.enabled)).toEqual([])
  await page.goto(all.server.url)
  await page.getByText('No agent is running.').waitFor()
  expect(await page.getByRole('button', { name: 'Run the demo…' }).count()).toBe(0)
  misbehaviour.check()
  await context.close()
})
