// What is seen: texts stay in their place, long differences in their region, and what is refused says why.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit, WIDTHS } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'

const LONG_NAME = 'a_tool_with_a_name_that_is_much_longer_than_its_column'
let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  const { server } = all
  // No rule fits, and the error names the script.
  writeScripts(server, { [LONG_NAME]: 'rules:\n  - when: { input: "never" }\n    answer: { text: Done. }\n' })
  await server.api('POST', '/api/admin/agents', { name: 'invoice-reader', model: rehearsal(LONG_NAME) })
  await untilStatus(server, await trigger(server, 'invoice-reader', 'Read invoice 4711'), 'failed')
})
afterAll(() => all?.stop())

const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollHeight - innerHeight)

it('keeps a long difference in its region', async () => {
  const { server, browser } = all
  const lines = (word: string) => Array.from({ length: 3000 }, (_, index) => `${index % 7 === 0 ? word : 'The same'}, line ${index}.`).join('\n')
  const { id } = await server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Note', key: 'long', properties: { text: lines('Before') } })
  await server.api('PATCH', `/api/graph/objects/${id}`, { properties: { text: lines('After') } })
  const { page, context, misbehaviour } = await visit(browser, server)
  for (const side of ['', '&side=true']) {
    await page.goto(`${server.url}/graph/objects/${id}?tab=history${side}`)
    await page.getByRole('region', { name: 'Version 1 and version 2' }).waitFor()
    expect(await overflow(page)).toBeLessThan(800)
  }
  misbehaviour.check()
  await context.close()
})

it('keeps the reason of a failed run on its line', async () => {
  for (const size of ['wide', 'narrow'] as const) {
    const { page, context, misbehaviour } = await visit(all.browser, all.server, { size })
    await page.goto(`${all.server.url}/runs`)
    const code = page.getByRole('table', { name: 'Runs' }).locator('code').first()
    await code.waitFor({ state: 'attached' })
    const heights = await page.locator('[role=cell] .truncate').evaluateAll((found) => found.map((one) => one.scrollHeight))
    expect(Math.max(...heights)).toBeLessThan(24)
    misbehaviour.check()
    await context.close()
  }
})

it('says on a touch screen why a control is disabled', async () => {
  const { server, browser } = all
  const login = await visit(browser, server)
  const context = await browser.newContext({ viewport: WIDTHS.narrow, hasTouch: true, isMobile: true, storageState: await login.context.storageState() })
  await login.context.close()
  const page = await context.newPage()
  await page.goto(`${server.url}/runs`)
  await page.getByRole('checkbox', { name: /^Select the run/ }).first().tap()
  const reason = page.getByText('Select two runs first.')
  // Forced, because it is disabled.
  await page.getByRole('button', { name: 'Compare' }).tap({ force: true })
  await reason.waitFor()
  await page.getByRole('heading', { level: 1 }).tap()
  await reason.waitFor({ state: 'detached' })
  await context.close()
})
