import { afterAll, beforeAll, expect, it, vi } from 'vitest'
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
  await page.getByRole('combobox', { name: 'Start at' }).fill('Card payments')
  await page.getByRole('option', { name: /Card payments failed/ }).waitFor()
  await page.keyboard.press('Enter')
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

it('waits with the picture until there is room for it', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size: 'narrow' })
  await page.goto(`${all.server.url}/graph/objects/${seeded.incident}`)
  const explore = page.getByRole('main').getByRole('link', { name: 'Explore' })
  await explore.waitFor()
  // A page that is not displayed has no width.
  await page.getByRole('main').evaluate((main) => (main.style.display = 'none'))
  await page.locator('main a', { hasText: 'Explore' }).first().evaluate((link) => (link as HTMLElement).click())
  await page.locator('[data-picture][data-nodes]:not([data-nodes="0"])').waitFor({ state: 'attached' })
  await page.locator('main').evaluate((main) => (main.style.display = ''))
  await page.locator('[data-picture][data-layout=done]').waitFor()
  await page.waitForFunction(() => [...document.querySelectorAll('[data-picture] canvas')].every((canvas) => canvas.clientWidth > 200))
  expect(await page.getByText('This browser cannot draw the picture.').count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('gives a type the same colour among the hits of a search and in the picture', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  /** The colour of each type, by the dots before the names of the types. */
  const colours = (rows: string) =>
    page.locator(rows).evaluateAll((dots) => Object.fromEntries(dots.map((dot) => [dot.nextSibling?.textContent?.trim() ?? '', getComputedStyle(dot).backgroundColor])))
  await page.goto(`${all.server.url}/graph?q=payment&mode=text`)
  await page.getByRole('link', { name: 'Payment gateway' }).first().waitFor()
  const found = await colours('main ol > li span[aria-hidden].size-2')
  expect(Object.keys(found)).toContain('Service')
  await page.goto(`${all.server.url}/graph?view=explore&from=${seeded.incident}&depth=3`)
  await page.getByRole('list', { name: 'Types' }).waitFor()
  const shown = await colours('[aria-label="Types"] span[aria-hidden].size-2')
  expect(Object.keys(shown).length).toBeGreaterThan(1)
  const both = Object.keys(shown).filter((type) => type in found)
  expect(both).toContain('Service')
  for (const type of both) expect(shown[type], type).toBe(found[type])
  misbehaviour.check()
  await context.close()
})

/** One object that knows two others, the second of which knows a third. */
async function seedNotes(name: string) {
  const create = async (key: string) => (await all.server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Note', key: `${name}-${key}`, properties: { title: `${name} ${key}` } })).id
  const know = (fromId: string, toId: string) => all.server.api('POST', '/api/graph/relationships', { type: 'knows', fromId, toId })
  const [start, near] = [await create('start'), await create('near')]
  await know(start, near)
  await new Promise((resolve) => setTimeout(resolve, 20))
  const before = new Date().toISOString()
  await new Promise((resolve) => setTimeout(resolve, 20))
  const [late, far] = [await create('late'), await create('far')]
  await know(start, late)
  await know(late, far)
  return { start, late, before }
}

it('goes on showing the picture when an expanded object is deleted, or was not there yet', async () => {
  const { start, late, before } = await seedNotes('Hiring')
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  const path = `${all.server.url}/graph?view=explore&from=${start}&expanded=${late}`
  await page.goto(path)
  await page.locator('[data-picture][data-nodes="4"]').waitFor()
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  await page.goto(`${path}&asOf=${before}`)
  await page.locator('[data-picture][data-nodes="2"]').waitFor()
  await page.goto(path)
  await page.locator('[data-picture][data-nodes="4"]').waitFor()
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  await all.server.api('DELETE', `/api/graph/objects/${late}`)
  // What was only reached through the deleted object leaves the picture with it.
  await page.locator('[data-picture][data-nodes="2"]').waitFor()
  await page.reload()
  await page.locator('[data-picture][data-nodes="2"]').waitFor()
  expect(await page.getByRole('alert').count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('says that its start was not there, or is deleted, and leads on', async () => {
  const { start, late, before } = await seedNotes('Moving')
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  await page.goto(`${all.server.url}/graph?view=explore&from=${late}&asOf=${before}`)
  const state = page.getByRole('main')
  await state.getByText('The object was not there at that moment.').waitFor()
  await state.getByRole('button', { name: 'Back to now' }).last().click()
  await page.locator('[data-picture][data-nodes="3"]').waitFor()
  await all.server.api('DELETE', `/api/graph/objects/${late}`)
  await state.getByText('The object is not there.').waitFor()
  await state.getByRole('button', { name: 'Choose another start' }).click()
  await page.getByText('Where do you want to start?').waitFor()
  await page.goto(`${all.server.url}/graph/objects/${start}`)
  await page.getByRole('link', { name: 'Explore' }).waitFor()
  await page.goto(`${all.server.url}/graph/objects/${late}`)
  await page.getByRole('button', { name: 'Restore…' }).waitFor()
  const explore = page.getByRole('button', { name: 'Explore' })
  expect(await explore.getAttribute('aria-description')).toMatch(/deleted/)
  expect(await page.getByRole('main').getByRole('link', { name: 'Explore' }).count()).toBe(0)
  misbehaviour.check()
  await context.close()
})
