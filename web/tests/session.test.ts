import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectAccessible, startAll, visit } from './harness'

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
})
afterAll(() => all?.stop())

it('logs in by the link that the program prints, and out again', async ({ task }) => {
  // The link works once.
  if (task.result?.retryCount) await all.server.restart()
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(all.server.loginLink)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  expect(new URL(page.url()).pathname).toBe('/')
  expect(await page.evaluate(() => document.cookie)).toBe('')
  expect(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))).not.toMatch(/token|emergent_|secret/i)

  await page.getByRole('button', { name: /Logged in as/ }).click()
  await page.getByRole('menuitem', { name: /Log out/ }).click()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  await page.reload()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('has a page behind the link that axe accepts, in the colours of both themes', async () => {
  const backgrounds = new Set<string>()
  for (const theme of ['light', 'dark'] as const) {
    const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, theme })
    for (const path of ['/login?code=x', '/login']) {
      await page.goto(all.server.url + path)
      await page.getByRole('main').getByRole('heading', { level: 1, name: 'Emergent' }).waitFor()
      await expectAccessible(page, `${path}, ${theme}`)
    }
    backgrounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor))
    misbehaviour.check()
    await context.close()
  }
  expect([...backgrounds]).toEqual(['rgb(250, 250, 251)', 'rgb(14, 14, 17)'])
})

it('takes a token, says what is wrong with another one, and leads to the page that was asked for', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(`${all.server.url}/runs?status=failed`)
  await page.getByLabel('Token').fill('wrong')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
  await page.getByLabel('Token').fill(all.server.token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor()
  expect(new URL(page.url()).search).toBe('?status=failed')
  misbehaviour.check()
  await context.close()
})

it('leads to the login with the reason when the token is revoked', async () => {
  const token = await all.server.api<{ id: string; token: string }>('POST', '/api/tokens', { name: 'visitor', scopes: ['graph:read', 'agents:read', 'admin:read'] })
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(all.server.url)
  await page.getByLabel('Token').fill(token.token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  await all.server.api('DELETE', `/api/tokens/${token.id}`)
  await page.getByRole('alert').filter({ hasText: 'Your login has ended' }).waitFor()
  misbehaviour.check()
  await context.close()
})

/** Logs in with a token of these scopes. */
async function enter(page: Page, scopes: string[]) {
  const token = await all.server.api<{ id: string; token: string }>('POST', '/api/tokens', { name: 'visitor', scopes })
  await page.getByLabel('Token', { exact: true }).fill(token.token)
  await page.keyboard.press('Enter')
  return token
}
const revoke = async (page: Page, id: string) => {
  await all.server.api('DELETE', `/api/tokens/${id}`)
  await page.getByRole('alert').filter({ hasText: 'Your login has ended' }).waitFor()
}
const EDITOR = ['agents:read', 'agents:write', 'admin:read', 'graph:read', 'chat:use']

it('has the form and what was typed in it again after the token was revoked', async ({ task }) => {
  const name = `letter-writer-${task.result?.retryCount ?? 0}`
  const { id } = await all.server.api<{ id: string }>('POST', '/api/admin/agents', { name, description: 'Writes letters.', systemPrompt: 'You write letters.' })
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(`${all.server.url}/agents/${id}?dialog=edit`)
  const token = await enter(page, EDITOR)
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Prompt').fill('You write letters that nobody forgets.')
  await dialog.getByLabel('Most steps').fill('1x')
  await revoke(page, token.id)
  // What was on the page is neither seen nor reached by keys.
  expect(await dialog.count()).toBe(0)
  expect(await page.getByText('letter', { exact: false }).filter({ visible: true }).count()).toBe(0)
  await page.waitForFunction(() => document.activeElement?.getAttribute('name') === 'token')
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme })
    await page.locator(`html[data-theme=${theme}]`).waitFor({ state: 'attached' })
    await page.screenshot({ path: `tests/screenshots/login-again-${theme}-1280.png`, animations: 'disabled' })
    await expectAccessible(page, `login over a form, ${theme}`)
  }
  await page.keyboard.press('Escape')
  await enter(page, EDITOR)
  await dialog.waitFor()
  expect(new URL(page.url()).search).toBe('?dialog=edit')
  expect(await dialog.getByLabel('Prompt').inputValue()).toBe('You write letters that nobody forgets.')
  expect(await dialog.getByLabel('Most steps').inputValue()).toBe('1x')
  await dialog.getByLabel('Most steps').fill('12')
  // It is live, asks before it is left, and can be sent.
  await page.locator('[role=status]').filter({ hasText: /^Live$/ }).waitFor()
  await page.keyboard.press('Escape')
  await dialog.getByRole('alertdialog').getByRole('button', { name: 'Keep' }).click()
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'detached' })
  const saved = await all.server.api<{ systemPrompt: string; maxSteps: number }>('GET', `/api/admin/agents/${id}`)
  expect([saved.systemPrompt, saved.maxSteps]).toEqual(['You write letters that nobody forgets.', 12])
  misbehaviour.check()
  await context.close()
})

it('shows a kept form to nobody who may not read it', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401, 403] } })
  await page.goto(`${all.server.url}/settings`)
  const token = await enter(page, [...EDITOR, 'admin:write'])
  const form = page.getByPlaceholder('For ever')
  await form.first().fill('30')
  await revoke(page, token.id)
  await page.getByText('What you wrote is there again').waitFor()
  await enter(page, ['graph:read'])
  await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor()
  expect(await form.count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('has a message that was not sent again after the token was revoked, unless it is discarded', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(`${all.server.url}/chat`)
  let token = await enter(page, EDITOR)
  const message = page.getByRole('textbox', { name: /message/i })
  await message.fill('What do we know about the harbour?')
  await revoke(page, token.id)
  token = await enter(page, EDITOR)
  await message.waitFor()
  expect(await message.inputValue()).toBe('What do we know about the harbour?')
  await revoke(page, token.id)
  await page.getByRole('button', { name: 'Discard it' }).click()
  await page.getByText('What you wrote is there again').waitFor({ state: 'detached' })
  await enter(page, EDITOR)
  await message.waitFor()
  expect(await message.inputValue()).toBe('')
  misbehaviour.check()
  await context.close()
})

it('keeps nothing of a person who logged out on another tab', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(`${all.server.url}/agents?dialog=new`)
  await enter(page, EDITOR)
  await page.getByRole('dialog').getByLabel('Prompt').fill('You keep secrets.')
  const other = await context.newPage()
  await other.goto(all.server.url)
  await other.getByRole('button', { name: /Logged in as/ }).click()
  await other.getByRole('menuitem', { name: /Log out/ }).click()
  await other.getByLabel('Token').waitFor()
  await page.getByLabel('Token').waitFor()
  await page.waitForFunction(() => !document.querySelector('textarea'))
  await enter(page, EDITOR)
  await page.getByRole('dialog').waitFor()
  expect(await page.getByRole('dialog').getByLabel('Prompt').inputValue()).toBe('')
  misbehaviour.check()
  await context.close()
})
