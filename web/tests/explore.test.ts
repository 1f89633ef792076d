import { afterAll, beforeAll, it, vi } from 'vitest'
import { seedGraph } from './graph-seed'
import { showEverywhere, startAll, visit } from './harness'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

let all: Awaited<ReturnType<typeof startAll>>
let seeded: Awaited<ReturnType<typeof seedGraph>>

beforeAll(async () => {
  all = await startAll({ sample: false })
  seeded = await seedGraph(all.server)
})
afterAll(() => all?.stop())

it('shows the neighbourhood of an object everywhere', () =>
  showEverywhere(all.browser, all.server, 'explore', `/graph?view=explore&from=${seeded.incident}&depth=3`, async (page) => {
    await page.getByRole('button', { name: 'Expand Payment gateway' }).waitFor()
    await page.locator('[data-picture][data-layout=done]').waitFor()
  }))

it('expands, finds, opens and starts anew with the keyboard alone', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph?view=explore`)
  await page.getByRole('searchbox', { name: 'Start at' }).fill('Card payments')
  await page.getByRole('button', { name: /Card payments failed/ }).press('Enter')
  await page.waitForURL(/from=/)
  await page.locator('[data-picture][data-nodes="3"]').waitFor()
  await page.getByRole('button', { name: 'Expand Payment gateway' }).press('Enter')
  await page.waitForURL(/expanded=/)
  await page.getByRole('button', { name: 'Expand Jonas Berg' }).waitFor()
  await page.getByRole('searchbox', { name: 'Find in the picture' }).fill('jonas')
  await page.getByRole('button', { name: 'Expand Mira Okafor' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: /^Jonas Berg/ }).press('Enter')
  await page.getByRole('button', { name: 'Start here' }).press('Enter')
  await page.locator('[data-picture][data-nodes="2"]').waitFor()
  await page.getByRole('link', { name: 'Open' }).press('Enter')
  await page.getByRole('heading', { level: 1, name: /Jonas Berg/ }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('expands a node by a click and opens it by a double click', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph?view=explore&from=Person%2Fjonas-berg`)
  await page.locator('[data-picture][data-nodes="2"][data-layout=done]').waitFor()
  // The list centres the picture on the node, so the click in its middle meets it.
  await page.getByRole('button', { name: /^Payment gateway/ }).click()
  await page.waitForTimeout(1000)
  const box = (await page.locator('[data-picture]').boundingBox())!
  const middle = [box.x + box.width / 2, box.y + box.height / 2] as const
  await page.mouse.click(...middle)
  await page.waitForURL(/expanded=/)
  await page.getByRole('button', { name: 'Expand Order service' }).waitFor()
  await page.locator('[data-picture][data-layout=done]').waitFor()
  await page.getByRole('button', { name: /^Payment gateway/ }).click()
  await page.waitForTimeout(1000)
  await page.mouse.dblclick(...middle)
  await page.getByRole('heading', { level: 1, name: /Payment gateway/ }).waitFor()
  misbehaviour.check()
  await context.close()
})
