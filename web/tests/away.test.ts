// The server is away while somebody goes on: the page stays, says so, and comes back by itself.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
})
afterAll(() => all?.stop())

it('keeps the program when a page cannot be loaded, and shows the page when the server is back', async () => {
  const { page, context } = await visit(all.browser, all.server)
  // Pages are loaded when nothing else is to do; here the server is away before.
  await page.addInitScript(() => Object.assign(window, { requestIdleCallback: () => 0 }))
  let loads = 0
  page.on('load', () => loads++)
  await page.goto(all.server.url)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await context.setOffline(true)
  const links = page.getByRole('navigation').first()
  await links.getByRole('link', { name: 'Audit' }).click()
  const failure = page.getByRole('alert').filter({ hasText: 'The server cannot be reached' })
  await failure.waitFor()
  expect(loads).toBe(1)
  await failure.getByRole('button', { name: 'Try again' }).click()
  await failure.waitFor()
  // The rest of the program works on, also the page that is loaded already.
  await links.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await links.getByRole('link', { name: 'Audit' }).click()
  await failure.waitFor()
  await context.setOffline(false)
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor()
  expect(loads).toBe(1)
  // `docs/web.md` names all that is stored.
  const stored = await page.evaluate(() => Object.keys(sessionStorage))
  expect(stored.filter((key) => !key.startsWith('tsr-scroll-restoration-'))).toEqual([])
  await context.close()
})

it('opens every page while the server is away, once they were loaded', async () => {
  const { page, context } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  // The last one.
  const last = await page.waitForResponse(/assets\/SettingsPage-/, { timeout: 60_000 })
  await last.finished()
  await context.setOffline(true)
  await page.getByRole('navigation').first().getByRole('link', { name: 'Audit' }).click()
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor()
  await context.close()
})

it('loads what was opened while a killed server was away, when it is back', { timeout: 120_000 }, async () => {
  const { page, context } = await visit(all.browser, all.server)
  const other = await context.newPage()
  for (const one of [page, other]) {
    await one.addInitScript(() => Object.assign(window, { requestIdleCallback: () => 0 }))
    await one.goto(`${all.server.url}/workflows`)
    await one.getByRole('button', { name: 'Run the demo…' }).first().waitFor()
  }
  let loads = 0
  page.on('load', () => loads++)
  await all.server.kill()
  // Chromium keeps imports that failed, so pressing again and waiting have to lead to requests all the same.
  const demo = other.getByRole('button', { name: 'Run the demo…' }).first()
  await demo.click()
  await other.getByRole('status').filter({ hasText: 'it opens when the server is back' }).waitFor()
  await page.getByRole('navigation').first().getByRole('link', { name: 'Audit' }).click()
  const failure = page.getByRole('alert').filter({ hasText: 'The server cannot be reached' })
  await failure.getByRole('button', { name: 'Try again' }).click()
  await failure.waitFor()
  await all.server.restart()
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor()
  await other.getByRole('dialog', { name: 'Run the demo workflow' }).waitFor()
  expect(loads).toBe(0)
  await context.close()
})
