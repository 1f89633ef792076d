// Where a person is: dialogs in the address, projects that are not there, rows that were left and selected.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { openDesk } from './desk'
import { visit } from './harness'
import { ask } from './seed-inbox'

const desk = openDesk()
const dialog = (page: Page, name: RegExp) => page.getByRole('dialog', { name })

it('has the dialogs of the runs and of the overview in the address', async () => {
  const item = await ask(desk.server, 'vendor-cleanup', 'Remove vendors without orders.')
  const { page, context, misbehaviour } = await visit(desk.browser, desk.server, { expected: { statuses: [404] } })
  await page.goto(desk.server.url)
  await page.getByRole('button', { name: /^Deny…/ }).first().click()
  await page.waitForURL((url) => url.searchParams.get('dialog') === 'deny' && url.searchParams.get('of') === item.id)
  await dialog(page, /wants to call/).waitFor()
  await page.goBack()
  await dialog(page, /wants to call/).waitFor({ state: 'detached' })
  await page.goto(`${desk.server.url}/?dialog=approve&of=${item.id}`)
  await dialog(page, /wants to call/).getByRole('button', { name: 'Approve' }).waitFor()

  await page.goto(`${desk.server.url}/runs?status=waiting`)
  await page.getByRole('button', { name: /^Cancel all that match…/ }).click()
  await page.waitForURL((url) => url.searchParams.get('dialog') === 'cancel')
  await dialog(page, /^Cancel runs/).waitFor()
  await page.goBack()
  await dialog(page, /^Cancel runs/).waitFor({ state: 'detached' })
  // A link without a filter would change every run: it says what is missing.
  await page.goto(`${desk.server.url}/runs?dialog=cancel`)
  await dialog(page, /^Cancel runs/).getByText('Select runs or set a filter first.').first().waitFor()
  misbehaviour.check()
  await context.close()
})

it('selects all runs and ranges of them, and refuses to change none', async () => {
  for (let count = 0; count < 3; count++) await ask(desk.server, 'vendor-cleanup', `Remove vendors without orders, ${count}.`)
  const { page, context, misbehaviour } = await visit(desk.browser, desk.server)
  await page.goto(`${desk.server.url}/runs?status=waiting`)
  const boxes = page.getByRole('checkbox', { name: /^Select the run/ })
  // Those of the test before have ended.
  await expect.poll(() => boxes.count(), { timeout: 30_000 }).toBe(3)
  await boxes.nth(0).click()
  await boxes.nth(2).click({ modifiers: ['Shift'] })
  await page.getByRole('button', { name: 'Cancel 3…' }).waitFor()
  const all = page.getByRole('checkbox', { name: 'Select all runs that are loaded' })
  expect(await all.isChecked()).toBe(true)
  await all.click()
  await page.getByRole('button', { name: 'Cancel all that match…' }).waitFor()
  await all.click()
  await page.getByRole('button', { name: 'Cancel 3…' }).waitFor()
  // What was selected is not known after a reload: the dialog is not about all that match then.
  const asked: string[] = []
  page.on('request', (request) => request.url().endsWith('/runs/bulk') && asked.push(request.postData() ?? ''))
  await boxes.nth(0).click()
  await page.getByRole('button', { name: 'Cancel 2…' }).click()
  const confirm = dialog(page, /^Cancel runs/).getByRole('button', { name: /^Cancel/ })
  await dialog(page, /^Cancel runs/).getByRole('button', { name: 'Cancel 2 runs' }).waitFor()
  expect(asked.length).toBe(1)
  await page.reload()
  await dialog(page, /^Cancel runs/).getByRole('paragraph').getByText('The runs that were selected are not known any more').waitFor()
  expect(await confirm.getAttribute('aria-disabled')).toBe('true')
  expect(asked.length).toBe(1)
  await page.goto(`${desk.server.url}/runs?status=waiting&q=nothing-has-this-word`)
  await page.getByText('No run matches these filters.').waitFor()
  const cancel = page.getByRole('button', { name: /^Cancel all that match…/ })
  expect(await cancel.getAttribute('aria-disabled')).toBe('true')
  misbehaviour.check()
  await context.close()
})

it('prints the content of a page alone, in light', async () => {
  const { page, context } = await visit(desk.browser, desk.server, { theme: 'dark' })
  await page.goto(`${desk.server.url}/runs`)
  await page.getByRole('table', { name: 'Runs' }).getByRole('row').nth(3).waitFor()
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme)
  await page.emulateMedia({ media: 'print' })
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')))
  expect(await theme()).toBe('light')
  expect(await page.getByRole('navigation').count()).toBe(0)
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor()
  // A text that is cut to its column is cut on paper too, and the list is as long as it is.
  expect(await page.locator('main .truncate').first().evaluate((element) => getComputedStyle(element).overflowX)).toBe('hidden')
  expect(await page.locator('main > div').first().evaluate((element) => getComputedStyle(element).overflowY)).toBe('visible')
  await page.evaluate(() => dispatchEvent(new Event('afterprint')))
  expect(await theme()).toBe('dark')
  await context.close()
})

it('leads from a project that is not there to one that is', async () => {
  const { page, context } = await visit(desk.browser, desk.server, { expected: { statuses: [404] } })
  await page.goto(`${desk.server.url}/runs?project=nope`)
  await page.getByRole('heading', { level: 1, name: 'Project not found' }).waitFor()
  await page.getByRole('main').getByText('There is no project nope').waitFor()
  expect(await page.getByRole('alert').count()).toBe(0)
  await page.getByRole('link', { name: 'Open the project default' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  expect(new URL(page.url()).search).toBe('')
  await context.close()
})

it('returns to the row that was open', async () => {
  const { page, context } = await visit(desk.browser, desk.server)
  await page.goto(`${desk.server.url}/runs`)
  await page.getByRole('table', { name: 'Runs' }).getByRole('row').nth(3).waitFor()
  for (let count = 0; count < 3; count++) await page.keyboard.press('j')
  const third = await page.locator('[data-index="2"] a').first().getAttribute('href')
  await page.waitForFunction(() => (document.activeElement as HTMLElement | null)?.dataset.index === '2')
  await page.keyboard.press('Enter')
  await page.waitForURL(`**${third}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.goBack()
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor()
  await page.locator('[data-index="3"]').waitFor()
  await page.keyboard.press('j')
  await page.waitForFunction(() => (document.activeElement as HTMLElement | null)?.dataset.index === '3')
  await context.close()
})

it('shows the shortcuts of every page', async () => {
  const { page, context } = await visit(desk.browser, desk.server)
  await page.goto(desk.server.url)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.keyboard.press('?')
  const shortcuts = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
  for (const text of ['Edit the input of the call', 'Deny, or cancel the workflow', 'Answer', 'Search', 'Stop the answer']) await shortcuts.getByText(text, { exact: true }).waitFor()
  await context.close()
})

it('keeps a menu of the top bar at its button while the page is scrolled', async () => {
  const { page, context, misbehaviour } = await visit(desk.browser, desk.server, { size: 'narrow' })
  await page.goto(desk.server.url)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.getByRole('button', { name: 'Theme' }).click()
  const menu = page.getByRole('menu', { name: 'Theme' })
  await menu.waitFor()
  const places = await menu.evaluate((element) => {
    const before = element.getBoundingClientRect().top
    scrollBy({ top: 60, behavior: 'instant' })
    return { before, after: element.getBoundingClientRect().top, scrolled: scrollY }
  })
  expect(places.scrolled).toBe(60)
  expect(places.after).toBe(places.before)
  misbehaviour.check()
  await context.close()
})
