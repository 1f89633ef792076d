// What holds on every screen: nothing is asked of another server, nothing is blocked or broken, no token can be read.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectAccessible, logIn, showEverywhere, startAll, visit } from './harness'
import { routeOf, routes, shownEverywhere } from './routes'
import { openScreen, type Screens, seedScreens } from './seed-screens'

let all: Awaited<ReturnType<typeof startAll>>
let screens: Screens

beforeAll(async () => {
  all = await startAll()
  screens = await seedScreens(all.server)
})
afterAll(() => all?.stop())

it('has every route among the pages that are shown in both themes and widths', () => {
  const known = routes()
  expect(known.length).toBeGreaterThan(20)
  const shown = new Set(shownEverywhere().map((path) => routeOf(path, known)))
  expect(known.filter((route) => !shown.has(route))).toEqual([])
})

/** Everything that a script of the page can read. */
const readable = (page: Page) =>
  page.evaluate(async () => {
    const databases = (await indexedDB.databases()).map((one) => one.name)
    const stores = await Promise.all([...(await caches.keys())].map(async (name) => [name, (await (await caches.open(name)).keys()).map((request) => request.url)]))
    return { cookie: document.cookie, local: { ...localStorage }, session: { ...sessionStorage }, databases, stores, name: window.name }
  })

it('opens every screen without an error, a violation of the policy, a request elsewhere or a token that scripts can read', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await logIn(page, all.server)
  const session = (await context.cookies()).filter((cookie) => cookie.value.length > 8)
  expect(session.map((cookie) => [cookie.httpOnly, cookie.sameSite])).toEqual([[true, 'Strict']])
  for (const path of screens.paths.values()) {
    expect(path).not.toContain('$')
    await openScreen(page, all.server.url + path)
    // Nothing failed.
    expect(await page.getByText(/could not be (loaded|shown)/).count(), path).toBe(0)
    expect(await page.title(), path).toMatch(/\S+ · Emergent$/)
    expect(await page.locator('h1').count(), path).toBe(1)
    expect(await page.locator('style, [style*="url("]').count(), path).toBe(0)
    expect(misbehaviour.found, path).toEqual([])
  }
  const found = JSON.stringify(await readable(page))
  for (const secret of [all.server.token, ...session.map((cookie) => cookie.value)]) expect(found).not.toContain(secret)
  expect(found).not.toMatch(/emt_|emc_|ems_|Bearer/)
  expect(JSON.parse(found)).toMatchObject({ cookie: '', databases: [], stores: [] })
  // `docs/web.md` names what the browser stores.
  const stored = JSON.parse(found) as { local: object; session: object }
  expect(Object.keys(stored.local).filter((key) => !/^(theme$|emergent-)/.test(key))).toEqual([])
  expect(Object.keys(stored.session).filter((key) => !key.startsWith('tsr-scroll-restoration-'))).toEqual([])
  misbehaviour.check()
  await context.close()
})

it('shows the login and a page that does not exist in both themes and widths without a violation', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme })
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 })
      await page.goto(all.server.url)
      await page.getByLabel('Token').waitFor()
      await page.screenshot({ path: `tests/screenshots/login-${theme}-${width}.png`, animations: 'disabled' })
      await expectAccessible(page, `login, ${theme}, ${width} px`)
    }
  }
  misbehaviour.check()
  await context.close()
  await showEverywhere(all.browser, all.server, 'not-found', '/nothing-here', (one) => one.getByRole('heading', { name: 'Page not found' }).waitFor())
})

it('shows palette, shortcuts and navigation in both themes without a violation', async () => {
  for (const theme of ['light', 'dark'] as const) {
    const { page, context, misbehaviour } = await visit(all.browser, all.server, { theme })
    await page.goto(all.server.url)
    await page.getByRole('status').filter({ hasText: /^Live$/ }).waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor()
    await page.keyboard.type('release')
    await page.getByRole('option', { name: /^release-watcher/ }).first().waitFor()
    await page.screenshot({ path: `tests/screenshots/palette-${theme}-1280.png`, animations: 'disabled' })
    await expectAccessible(page, `palette, ${theme}`)
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
    await expectAccessible(page, `shortcuts, ${theme}`)
    await page.keyboard.press('Escape')
    await page.setViewportSize({ width: 390, height: 844 })
    await page.getByRole('button', { name: 'Open the navigation' }).click()
    await page.getByRole('dialog', { name: 'Navigation' }).waitFor()
    await page.screenshot({ path: `tests/screenshots/navigation-${theme}-390.png`, animations: 'disabled' })
    await expectAccessible(page, `navigation, ${theme}`)
    misbehaviour.check()
    await context.close()
  }
})

it('finds agents, runs, workflows, objects, pages and actions with the palette', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  const choose = async (text: string, group: string, option: RegExp) => {
    await page.keyboard.press('Control+k')
    const field = page.getByRole('combobox', { name: 'Search or run a command' })
    await field.waitFor()
    await page.keyboard.type(text)
    await page.getByRole('listbox').getByText(group, { exact: true }).waitFor()
    const wanted = page.getByRole('option', { name: option }).last()
    await wanted.waitFor()
    for (let count = 0; count < 30 && (await wanted.getAttribute('aria-selected')) !== 'true'; count++) await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await field.waitFor({ state: 'detached' })
  }
  await choose('release-watcher', 'Agents', /^release-watcher ?Watches/)
  await page.getByRole('heading', { level: 1, name: 'release-watcher' }).waitFor()
  await choose('invoice 4711', 'Runs', /^invoice-reader/)
  await page.waitForURL(`**/runs/${screens.runs.failed[0]}`)
  await choose(screens.runs.failed[1]!, 'By id', /^Open the run/)
  await page.waitForURL(`**/runs/${screens.runs.failed[1]}`)
  await choose('figures', 'Workflows', /figures of the quarter/)
  await page.waitForURL(`**${screens.paths.get('/workflows/$workflowId')}`)
  await choose('lovelace', 'Objects', /^Ada Lovelace/)
  await page.getByRole('heading', { level: 1, name: /Ada Lovelace/ }).waitFor()
  await choose('secr', 'Pages', /^Secrets/)
  await page.getByRole('heading', { level: 1, name: 'Secrets' }).waitFor()
  await choose('dark theme', 'Actions', /^Use the dark theme/)
  await page.locator('html[data-theme=dark]').waitFor()
  misbehaviour.check()
  await context.close()
})
