import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { seed, trigger, untilStatus } from './seed'

let all: Awaited<ReturnType<typeof startAll>>
let seeded: Awaited<ReturnType<typeof seed>>
beforeAll(async () => {
  all = await startAll()
  seeded = await seed(all.server)
})
afterAll(() => all?.stop())

it('shows the overview in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'overview', '/', async (page) => {
    await page.getByText('Read invoice').or(page.getByRole('link', { name: 'invoice-reader' })).first().waitFor()
    await page.getByRole('link', { name: /old|entities_delete/ }).first().waitFor()
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  }))

it('shows the runs in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'runs', '/runs', async (page) => {
    await page.getByRole('row').filter({ hasText: 'invoice-reader' }).first().waitFor()
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  }))

it('shows a run as soon as it starts, without a reload', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?status=completed`)
  await page.getByRole('row').nth(1).waitFor()
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  const run = await trigger(all.server, 'researcher', 'What is new?')
  await untilStatus(all.server, run, 'completed')
  await page.locator(`a[href="/runs/${run}"]`).waitFor()
  misbehaviour.check()
  await context.close()
})

it('keeps the filters in the URL and opens a row with the keyboard', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs`)
  await page.getByRole('row').nth(1).waitFor()
  await page.getByLabel('Status').selectOption('failed')
  await page.waitForURL(/status=failed/)
  await page.getByText('2 shown').waitFor()
  await page.reload()
  await page.getByText('2 shown').waitFor()
  await page.getByRole('heading', { level: 1 }).click()
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  await page.locator('[data-index="1"]:focus').waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/runs/${seeded.failed[0]}`)
  misbehaviour.check()
  await context.close()
})

it('says what a bulk action would do before it does it', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?agent=release-watcher`)
  await page.getByText('2 shown').waitFor()
  await page.getByRole('button', { name: /^Cancel/ }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel runs' })
  await dialog.getByText('2 of 2 runs can be cancelled').waitFor()
  expect((await untilStatus(all.server, seeded.running[0]!, 'running')).status).toBe('running')
  await dialog.getByRole('button', { name: 'Cancel 2 runs' }).click()
  await page.getByText('2 runs were cancelled.').waitFor()
  await page.getByRole('row').filter({ hasText: 'Cancelled' }).nth(1).waitFor()
  misbehaviour.check()
  await context.close()
})

it('opens pages, runs and actions with the palette', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor()
  await page.keyboard.type('researcher')
  await page.getByRole('option', { name: /researcher/ }).first().waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor({ state: 'detached' })
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor()
  await page.keyboard.type('budg')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Budgets' }).waitFor()
  expect(await page.evaluate(() => document.activeElement?.tagName)).toBe('H1')
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
  misbehaviour.check()
  await context.close()
})
