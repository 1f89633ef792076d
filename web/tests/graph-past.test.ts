// The graph at an earlier moment: the field that chooses it, and what an object and the list say about it.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { seedGraph } from './graph-seed'
import { held, startAll, visit } from './harness'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

const PATIENT = { timeout: 30_000 }

let all: Awaited<ReturnType<typeof startAll>>
let seeded: Awaited<ReturnType<typeof seedGraph>>
beforeAll(async () => {
  all = await startAll({ sample: false })
  seeded = await seedGraph(all.server)
  await all.server.api('PATCH', `/api/graph/objects/${seeded.incident}`, { properties: { minutes: 23 } })
})
afterAll(() => all?.stop())

/** A moment as the field takes it, in the time zone of the browser. */
const local = (page: Page, time: string | number) =>
  page.evaluate((at) => {
    const date = new Date(at)
    return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
  }, time)

it('keeps the focus in As of while another moment is loaded', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  await page.goto(`${all.server.url}/graph/objects/${seeded.incident}?asOf=${seeded.before}`)
  await page.getByRole('heading', { name: 'Version 1' }).waitFor()
  const field = page.getByLabel('As of')
  const isFocused = () => field.evaluate((element) => element === document.activeElement)
  // Nothing changes while somebody types; after a pause the moment is shown.
  await field.fill(await local(page, Date.now() - 86_400_000))
  expect(page.url()).toContain(seeded.before)
  await page.getByText('The object was not there at that moment.').waitFor()
  expect(await isFocused()).toBe(true)
  // Enter does not wait, and what is to come is now.
  await field.fill(await local(page, Date.now() + 86_400_000))
  expect(await field.evaluate((element: HTMLInputElement) => element.validity.rangeOverflow)).toBe(true)
  await field.press('Enter')
  await page.getByRole('heading', { name: 'Version 3' }).waitFor()
  expect(await isFocused()).toBe(true)
  expect(Date.parse(new URL(page.url()).searchParams.get('asOf')!)).toBeLessThanOrEqual(Date.now())
  // So does leaving the field.
  await field.fill('')
  await field.blur()
  await page.waitForURL((url) => !url.searchParams.has('asOf'))
  await page.getByText(/You see the graph as of/).waitFor({ state: 'detached' })
  misbehaviour.check()
  await context.close()
})

it('tells the version that was seen then from the current one', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph/objects/${seeded.incident}?tab=history&asOf=${seeded.before}`)
  const version = (number: number) => page.getByRole('listitem').filter({ has: page.getByRole('button', { name: `Version ${number}`, exact: true }) })
  await version(1).getByText('Seen now').waitFor()
  expect(await version(1).getByText('Current').count()).toBe(0)
  expect(await version(1).getByRole('button').getAttribute('aria-pressed')).toBe('true')
  await version(3).getByText('Current').waitFor()
  expect(await page.getByText('Seen now').count()).toBe(1)
  expect(await page.getByRole('tab', { name: /History/ }).innerText()).toBe('History')
  await version(2).getByRole('button').click()
  await page.getByRole('switch', { name: 'Side by side' }).click()
  await page.waitForURL(/side=true/)
  await page.reload()
  await page.getByRole('columnheader', { name: 'Version 2' }).waitFor()
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.getByText('Seen now').waitFor({ state: 'detached' })
  await expect.poll(() => page.getByRole('tab', { name: /History/ }).innerText(), { timeout: 10_000 }).toMatch(/3$/)
  misbehaviour.check()
  await context.close()
})

it('counts no types of the past, names those that were there, and offers no changes', async () => {
  const { id } = await all.server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Memo', key: 'gone', properties: { title: 'Gone for good' } })
  const during = new Date().toISOString()
  await new Promise((resolve) => setTimeout(resolve, 20))
  await all.server.api('DELETE', `/api/graph/objects/${id}`)
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const types = () => page.getByLabel('Type').locator('option').allInnerTexts()
  for (const past of [`asOf=${during}`, 'deleted=true']) {
    await page.goto(`${all.server.url}/graph?${past}`)
    await page.getByRole('row').filter({ hasText: 'Gone for good' }).waitFor()
    await expect.poll(types, PATIENT).toEqual(expect.arrayContaining(['Memo', 'Service']))
    // A chosen type does not take the others away.
    await page.getByLabel('Type').selectOption('Service')
    await page.waitForURL(/type=Service/)
    expect(await types()).toContain('Memo')
  }
  // Nothing is counted as zero while the counts are being read.
  const counts = await held(page, '**/api/graph/types')
  await page.goto(`${all.server.url}/graph`)
  await page.getByRole('row').filter({ hasText: 'Payment gateway' }).first().waitFor()
  await expect.poll(types, PATIENT).toContain('Service')
  expect((await types()).filter((type) => type.includes('('))).toEqual([])
  counts.release()
  await expect.poll(types, PATIENT).toContain('Service (6)')
  const offers = async () => {
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: 'Export the graph' }).waitFor()
    const found = await page.getByRole('option').allInnerTexts()
    await page.keyboard.press('Escape')
    return found.filter((text) => /^(Create an object|Import objects)/.test(text)).length
  }
  expect(await offers()).toBe(2)
  await page.goto(`${all.server.url}/graph?asOf=${during}`)
  await page.getByText(/You see the graph as of/).waitFor()
  expect(await offers()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('offers a reader nothing in the palette that a button of the graph, the schedules, the workflows or a run refuses', async () => {
  const { token } = await all.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Reader', scopes: ['admin:read', 'agents:read', 'graph:read'] })
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(`${all.server.url}/graph`)
  await page.getByLabel('Token').fill(token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Graph' }).waitFor()
  for (const [path, button, kept] of [
    ['/graph', 'New object', /^Export the graph/],
    ['/schedules', 'Create a schedule', /^Schedules/],
    ['/workflows', 'Dispatch…', /^Workflows/],
    [`/runs/${seeded.run}`, 'Revert…', /^Compare this run/],
  ] as const) {
    await page.goto(all.server.url + path)
    await page.getByRole('button', { name: button }).first().waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: kept }).first().waitFor()
    const found = await page.getByRole('option').allInnerTexts()
    expect(found.filter((text) => /^(Create an object|Import objects|Create a schedule|Create an event|Dispatch|Run the demo|Revert|Cancel|Resume)/.test(text))).toEqual([])
    await page.keyboard.press('Escape')
  }
  const { id } = await all.server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Memo', properties: { title: 'Withdrawn' } })
  await all.server.api('DELETE', `/api/graph/objects/${id}`)
  await page.goto(`${all.server.url}/graph?deleted=true`)
  await page.getByRole('button', { name: 'Restore Withdrawn' }).hover()
  await page.getByText(/graph:write/).waitFor()
  misbehaviour.check()
  await context.close()
})

it('has room for what a filter says, and a title for what is longer', async () => {
  await all.server.api('POST', '/api/graph/objects', { type: 'RegulatoryCorrespondenceRecord', properties: { title: 'Letter of the regulator' } })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph?type=RegulatoryCorrespondenceRecord`)
  await page.getByRole('row').filter({ hasText: 'Letter of the regulator' }).waitFor()
  const type = page.getByLabel('Type')
  expect(await type.getAttribute('title')).toBe('RegulatoryCorrespondenceRecord (1)')
  expect((await type.boundingBox())!.width).toBe(160)
  misbehaviour.check()
  await context.close()
})
