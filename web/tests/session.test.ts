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
