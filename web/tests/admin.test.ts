import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit, visitAs } from './harness'
import { seed } from './seed'

type Budgets = { project: { limit: { usd?: number | null; tokens?: number | null } }; agents: { agent: string; limit: { usd?: number | null; tokens?: number | null } }[] }
type Token = { id: string; name: string; scopes: string[]; revokedAt?: string | null; project?: unknown }
type Secret = { name: string; version: number; destinations?: { server: string; allowed: boolean }[] }

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  await seed(all.server)
})
afterAll(() => all?.stop())
const budgets = () => all.server.api<Budgets>('GET', '/api/coordination/budgets')
const tokens = () => all.server.api<Token[]>('GET', '/api/tokens')
const secrets = () => all.server.api<Secret[]>('GET', '/api/admin/secrets')

/** Creates a token on its page, with what a person fills in, and returns the token that is shown once. */
async function createToken(page: Page, name: string, fill: (dialog: Locator) => Promise<unknown> = async () => undefined): Promise<string> {
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Create a token' }).click()
  await dialog.getByLabel('Name').fill(name)
  await fill(dialog)
  await dialog.getByRole('button', { name: 'Create the token' }).click()
  await dialog.getByText('Copy it now').waitFor()
  const secret = (await dialog.locator('code').innerText()).trim()
  await dialog.getByRole('button', { name: 'I have copied it' }).click()
  return secret
}

it('sets a limit, shows a refused one at its field, and takes one away', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/budgets`)
  await page.getByRole('button', { name: 'Change the limit of researcher' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('US dollars').fill('-1')
  await dialog.getByRole('button', { name: 'Save the limit' }).click()
  await dialog.locator('[aria-invalid=true]').waitFor()
  await dialog.getByLabel('US dollars').fill('2.5')
  await dialog.getByRole('button', { name: 'Save the limit' }).click()
  await page.getByRole('row').filter({ hasText: 'researcher' }).getByText('$2.50').waitFor()
  expect((await budgets()).agents.find((one) => one.agent === 'researcher')?.limit).toMatchObject({ usd: 2.5, tokens: 60_000 })
  await page.getByRole('button', { name: 'Change the limit of the project' }).click()
  await dialog.getByLabel('Tokens').fill('')
  await dialog.getByRole('button', { name: 'Save the limit' }).click()
  await page.getByRole('row').filter({ hasText: 'The project' }).getByText('None').waitFor()
  expect((await budgets()).project.limit.tokens ?? null).toBeNull()
  // The button of the page is about an agent that has a limit already.
  await page.getByRole('button', { name: 'Set a limit' }).click()
  await dialog.getByLabel('Of').selectOption('researcher')
  await dialog.getByLabel('US dollars').fill('3')
  await dialog.getByRole('button', { name: 'Save the limit' }).click()
  await page.getByRole('row').filter({ hasText: 'researcher' }).getByText('$3.00').waitFor()
  expect((await budgets()).agents.find((one) => one.agent === 'researcher')?.limit).toMatchObject({ usd: 3, tokens: 60_000 })
  misbehaviour.check()
  await context.close()
})

it('creates a token that works, and revokes it', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/tokens`)
  const secret = await createToken(page, 'Nightly report', async (dialog) => {
    await dialog.getByRole('checkbox', { name: /^graph:write/ }).check()
    await dialog.getByRole('checkbox', { name: /^agents:read/ }).uncheck()
  })
  const status = async (path: string) => (await fetch(all.server.url + path, { headers: { Authorization: `Bearer ${secret}` } })).status
  expect(await status('/api/graph/objects')).toBe(200)
  expect(await status('/api/admin/agents')).toBe(403)
  expect((await tokens()).find((one) => one.name === 'Nightly report')?.scopes.toSorted()).toEqual(['graph:read', 'graph:write'])
  await page.getByRole('button', { name: 'Revoke Nightly report' }).click()
  await page.getByRole('button', { name: 'Revoke the token' }).click()
  await page.getByRole('row').filter({ hasText: 'Nightly report' }).getByText('Revoked').waitFor()
  expect(await status('/api/graph/objects')).toBe(401)
  misbehaviour.check()
  await context.close()
})

it('creates a token of one project, and revokes a token together with those that it created', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/tokens`)
  const secret = await createToken(page, 'Deployment', async (form) => {
    await form.getByLabel('Project').selectOption('All projects')
    for (const scope of [/^admin:read/, /^admin:write/]) await form.getByRole('checkbox', { name: scope }).check()
  })
  const projects = await all.server.api<{ id: string; name: string }[]>('GET', '/api/projects')
  const create = (name: string) => fetch(`${all.server.url}/api/tokens`, { method: 'POST', headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ name, scopes: ['graph:read'] }) })
  expect((await create('Preview')).status).toBe(201)
  expect((await tokens()).find((one) => one.name === 'Deployment')?.project ?? null).toBeNull()

  await createToken(page, 'Website')
  expect((await tokens()).find((one) => one.name === 'Website')?.project).toBe(projects.find((one) => one.name === 'default')!.id)

  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Revoke Deployment' }).click()
  await dialog.getByText('Tokens that it created stay valid').waitFor()
  await dialog.getByRole('button', { name: 'Revoke the token' }).click()
  await dialog.getByText('What it created stays valid').waitFor()
  await dialog.getByText('Preview', { exact: true }).waitFor()
  expect((await tokens()).find((one) => one.name === 'Preview')?.revokedAt ?? null).toBeNull()
  await dialog.getByRole('button', { name: 'Revoke it too' }).click()
  await page.getByText('The tokens that Deployment created were revoked.').waitFor()
  expect((await tokens()).find((one) => one.name === 'Preview')?.revokedAt).toBeTruthy()
  misbehaviour.check()
  await context.close()
})

it('rotates the key of the secrets, which only a token of all projects may', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/secrets`)
  await page.getByRole('button', { name: 'Rotate the key…' }).click()
  await page.getByRole('dialog').getByText('The secrets of all projects').waitFor()
  await page.getByRole('button', { name: 'Rotate the key', exact: true }).click()
  await page.getByText(/^The key is now /).waitFor()
  misbehaviour.check()
  await context.close()
  const bound = await visitAs(all.browser, all.server, ['admin:read', 'admin:write'], { project: 'default' })
  await bound.page.goto(`${all.server.url}/secrets`)
  expect(await bound.page.getByRole('button', { name: 'Rotate the key…' }).getAttribute('aria-description')).toContain('A token that spans projects can do this.')
  bound.misbehaviour.check()
  await bound.context.close()
})

it('sets, replaces and deletes a secret', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/secrets`)
  await page.getByText('There is no secret yet.').waitFor()
  await page.getByRole('button', { name: 'Set a secret' }).first().click()
  const dialog = page.getByRole('dialog').filter({ hasText: 'Discard' })
  await dialog.getByLabel('Name').fill('TICKETS_TOKEN')
  await dialog.getByLabel('Value').fill('abc')
  await dialog.getByRole('button', { name: 'Set the secret' }).click()
  await dialog.locator('[aria-invalid=true]').waitFor()
  await dialog.getByLabel('Value').fill('a-token-of-the-ticket-system')
  await dialog.getByRole('button', { name: 'Set the secret' }).click()
  await page.getByRole('button', { name: 'Replace TICKETS_TOKEN' }).click()
  await dialog.getByLabel('Value').fill('another-token-of-the-ticket-system')
  await dialog.getByRole('button', { name: 'Replace the secret' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Set a secret' }).click()
  await dialog.getByLabel('Name').fill('TICKETS_TOKEN')
  await dialog.getByText('There is a secret of this name: its value is replaced').waitFor()
  await dialog.getByRole('button', { name: 'Discard' }).click()
  expect(await secrets()).toMatchObject([{ name: 'TICKETS_TOKEN', version: 2 }])
  await page.getByRole('button', { name: 'Delete TICKETS_TOKEN' }).click()
  await page.getByRole('button', { name: 'Delete the secret' }).click()
  await page.getByText('There is no secret yet.').waitFor()
  expect(await secrets()).toEqual([])
  misbehaviour.check()
  await context.close()
})

it('allows a server that somebody else added to get a secret', async () => {
  const { token } = await all.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Integrations', project: 'default', scopes: ['admin:read', 'admin:write'] })
  await all.server.api('PUT', '/api/admin/secrets/TICKETS_TOKEN', { value: 'a-token-of-the-ticket-system' })
  await all.server.api('PUT', '/api/admin/secrets/CALENDAR_TOKEN', { value: 'a-token-of-the-calendar' })
  await fetch(`${all.server.url}/api/admin/mcp-servers`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'tickets', transport: 'http', url: 'https://tickets.example.com/mcp', headers: { Authorization: 'Bearer ${TICKETS_TOKEN}' } }),
  })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/secrets`)
  await page.getByText('Does not get it').waitFor()
  await page.getByRole('button', { name: 'Allow tickets to get TICKETS_TOKEN' }).click()
  await page.getByRole('dialog').getByText('https://tickets.example.com').waitFor()
  await page.reload()
  await page.getByRole('dialog').getByText('https://tickets.example.com').waitFor()
  await page.getByRole('button', { name: 'Allow it' }).click()
  await page.getByText('Does not get it').waitFor({ state: 'detached' })
  expect((await secrets()).find((one) => one.name === 'TICKETS_TOKEN')?.destinations).toMatchObject([{ server: 'tickets', allowed: true }])
  misbehaviour.check()
  await context.close()
})

it('says in a narrow window what a token may do until when, and what of a budget is reserved', async () => {
  await all.server.api('POST', '/api/tokens', { name: 'Warehouse export', scopes: ['graph:read', 'chat:use'] })
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size: 'narrow' })
  await page.goto(`${all.server.url}/tokens`)
  const token = page.getByRole('row').filter({ hasText: 'Warehouse export' })
  await token.getByText('graph:read, chat:use').waitFor()
  expect(await token.innerText()).toMatch(/Expires:\s*Never/)
  await page.goto(`${all.server.url}/budgets`)
  const project = page.getByRole('row').filter({ hasText: 'The project' })
  await project.getByText(/^Reserved:/).waitFor()
  // The button keeps its distance from the edge of the list.
  const [list, button] = await Promise.all([page.getByRole('table').locator('..').boundingBox(), project.getByRole('button').boundingBox()])
  expect(list!.x + list!.width - (button!.x + button!.width)).toBeGreaterThanOrEqual(12)
  misbehaviour.check()
  await context.close()
})

it('shows the budgets everywhere', () =>
  showEverywhere(all.browser, all.server, 'budgets', '/budgets', (page) => page.getByRole('row').filter({ hasText: 'researcher' }).waitFor()))

it('shows the tokens everywhere', () =>
  showEverywhere(all.browser, all.server, 'tokens', '/tokens', (page) => page.getByText('Nightly report').waitFor()))

it('shows the secrets everywhere', () =>
  showEverywhere(all.browser, all.server, 'secrets', '/secrets', (page) => page.getByText('CALENDAR_TOKEN').waitFor()))
