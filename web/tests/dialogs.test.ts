// Dialogs are in the URL: a link opens them, Back closes them, and the focus is where it was.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { held, startAll, visit, visitAs } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { AGENTS, outage, prepareWorkflows, untilWorkflow } from './workflow-seed'

type Case = [path: string, button: RegExp, dialog: RegExp]
let all: Awaited<ReturnType<typeof startAll>>
let ended: string
let workflow: string
let object: string
let token: string
const SECRET_VALUE = 'a-key-that-nobody-may-see'

beforeAll(async () => {
  all = await startAll()
  const { server } = all
  await prepareWorkflows(server)
  writeScripts(server, { brief: 'rules:\n  - when: {}\n    answer: { text: Done. }\n' })
  await server.api('POST', '/api/admin/agents', { name: 'brief', model: rehearsal('brief') })
  ended = await trigger(server, 'brief', 'Say that it is done')
  await untilStatus(server, ended, 'completed')
  workflow = await outage(server)
  await untilWorkflow(server, workflow, 'escalated')
  object = (await server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Note', properties: { title: 'First' } })).id
  await server.api('PATCH', `/api/graph/objects/${object}`, { properties: { title: 'Second' } })
  token = (await server.api<{ id: string }>('POST', '/api/tokens', { name: 'Night export', scopes: ['graph:read'] })).id
  for (const name of ['MAIL_KEY', 'MAP_KEY']) await server.api('PUT', `/api/admin/secrets/${name}`, { value: SECRET_VALUE })
  await server.api('PUT', '/api/coordination/budgets', { agent: 'brief', usd: 3 })
  await server.api('POST', '/api/projects', { name: 'logistics' })
  await server.api('POST', '/api/admin/mcp-servers', { name: 'tickets', transport: 'http', url: 'https://tickets.example.com/mcp', enabled: false })
})
afterAll(() => all?.stop())

const ABOUT_ONE_THING = (): Case[] => [
  [`/runs/${ended}`, /^Revert…/, /Revert what this run wrote/],
  [`/runs/${ended}`, /^Save as test…/, /test/],
  [`/workflows/${workflow}`, /^Resume, add budget…/, /Resume the workflow/],
  [`/workflows/${workflow}?task=write-release`, /^Retry…/, /Retry “/],
  [`/graph/objects/${object}`, /^Edit$/, /Edit Second/],
  [`/graph/objects/${object}`, /^Delete…/, /Delete Second/],
  [`/graph/objects/${object}`, /^Add$/, /Add a relationship/],
  [`/graph/objects/${object}?tab=history&v=1`, /^Revert to it…/, /Revert to version 1/],
  ['/agents/brief', /^Delete…/, /Delete brief/],
  ['/mcp-servers/tickets', /^Remove…/, /Remove tickets/],
  ['/products/emergent.code', /^Uninstall…/, /Uninstall emergent.code/],
]

const OF_LISTS = (): Case[] => [
  ['/tokens', /^Create a token$/, /Create a token/],
  ['/tokens', /^Revoke Night export$/, /Revoke Night export/],
  ['/budgets', /^Set a limit$/, /Limit of a day/],
  ['/budgets', /^Change the limit of brief$/, /Limit of a day/],
  ['/secrets', /^Set a secret$/, /Set a secret/],
  ['/secrets', /^Replace MAIL_KEY$/, /Replace MAIL_KEY/],
  ['/secrets', /^Delete MAP_KEY$/, /Delete MAP_KEY/],
  ['/secrets', /^Rotate the key…$/, /Rotate the key of all secrets/],
  ['/settings', /^Create a project$/, /Create a project/],
  ['/settings', /^Delete logistics$/, /Delete the project logistics/],
]

it.each([
  ['about one thing', ABOUT_ONE_THING],
  ['of a list', OF_LISTS],
])('opens each dialog %s by its button, closes it with Back, and opens it again by a link', async (_, cases) => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  for (const [path, name, title] of cases()) {
    await page.goto(all.server.url + path)
    const button = page.getByRole('button', { name }).last()
    const dialog = page.getByRole('dialog', { name: title })
    await expect.poll(() => button.getAttribute('aria-disabled'), { message: path, timeout: 20_000 }).toBeNull()
    await button.focus()
    await page.keyboard.press('Enter')
    await dialog.waitFor()
    expect(page.url(), path).toContain('dialog=')
    const link = page.url()
    await page.goBack()
    await dialog.waitFor({ state: 'detached' })
    await expect.poll(() => button.evaluate((element) => element === document.activeElement), { message: path }).toBe(true)
    await page.goto(link)
    await dialog.waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(page.url(), path).not.toContain('dialog=')
  }
  misbehaviour.check()
  await context.close()
})

it('opens the dialog of a row with what the row has, also after a reload, Back and Forward', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const dialog = page.getByRole('dialog')
  await page.goto(`${all.server.url}/budgets`)
  await page.getByRole('button', { name: 'Change the limit of brief' }).click()
  await dialog.waitFor()
  expect(await dialog.getByLabel('US dollars').inputValue()).toBe('3')
  await page.reload()
  expect(await dialog.getByLabel('Of').inputValue()).toBe('brief')
  expect(await dialog.getByLabel('US dollars').inputValue()).toBe('3')
  await page.goBack()
  await dialog.waitFor({ state: 'detached' })
  await page.goForward()
  expect(await dialog.getByLabel('US dollars').inputValue()).toBe('3')
  await page.getByRole('button', { name: 'Discard' }).click()
  await page.getByRole('button', { name: 'Change the limit of the project' }).click()
  await dialog.waitFor()
  expect(page.url()).not.toContain('of=')
  expect(await dialog.getByLabel('Of').inputValue()).toBe('')
  misbehaviour.check()
  await context.close()
})

it('keeps what is typed, and a token that was created, out of the address', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const seen: string[] = []
  page.on('framenavigated', (frame) => seen.push(frame.url()))
  const dialog = page.getByRole('dialog')
  await page.goto(`${all.server.url}/secrets`)
  await page.getByRole('button', { name: 'Set a secret' }).click()
  await dialog.getByLabel('Name').fill('PHONE_KEY')
  await dialog.getByLabel('Value').fill(SECRET_VALUE)
  await dialog.getByRole('button', { name: 'Set the secret' }).click()
  await page.getByRole('button', { name: 'Replace PHONE_KEY' }).click()
  await dialog.getByLabel('Value').fill(SECRET_VALUE)
  await page.reload()
  await dialog.waitFor()
  expect(await dialog.getByLabel('Value').inputValue()).toBe('')
  await page.goto(`${all.server.url}/tokens?dialog=new`)
  await dialog.getByLabel('Name').fill('Warehouse')
  await dialog.getByRole('button', { name: 'Create the token' }).click()
  await dialog.getByText('Copy it now').waitFor()
  const secret = (await dialog.locator('code').innerText()).trim()
  await page.reload()
  await dialog.getByLabel('Name').waitFor()
  expect(seen.length).toBeGreaterThan(4)
  for (const address of [...seen, page.url()]) for (const text of [SECRET_VALUE, secret]) expect(address).not.toContain(text)
  misbehaviour.check()
  await context.close()
})

it('makes one thing, however soon Enter is pressed again', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/tokens?dialog=new`)
  await page.getByRole('dialog').getByLabel('Name').fill('Pressed twice')
  await page.getByRole('dialog').locator('form').evaluate((form: HTMLFormElement) => {
    form.requestSubmit()
    form.requestSubmit()
  })
  await page.getByRole('dialog').getByText('Copy it now').waitFor()
  const tokens = await all.server.api<{ name: string }[]>('GET', '/api/tokens?limit=100')
  expect(tokens.filter(({ name }) => name === 'Pressed twice').length).toBe(1)
  misbehaviour.check()
  await context.close()
})

it('leaves the dialog that is open when the answer to another one is late', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/secrets`)
  const answer = await held(page, /\/api\/admin\/secrets\/MAP_KEY$/)
  await page.getByRole('button', { name: 'Delete MAP_KEY' }).click()
  await page.getByRole('button', { name: 'Delete the secret' }).click()
  await answer.arrived
  await page.goBack()
  await page.getByRole('button', { name: 'Delete MAIL_KEY' }).click()
  const dialog = page.getByRole('dialog', { name: 'Delete MAIL_KEY' })
  await dialog.waitFor()
  answer.release()
  await page.getByText('The secret MAP_KEY was deleted.').waitFor()
  expect(await dialog.isVisible()).toBe(true)
  expect(page.url()).toContain('of=MAIL_KEY')
  misbehaviour.check()
  await context.close()
})

it('leads from what a workflow waits for to the dialog of its task', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/workflows/${workflow}`)
  await page.getByRole('region', { name: 'Needs a person' }).getByRole('button', { name: 'Reassign…' }).click()
  await page.getByRole('dialog', { name: /Reassign “/ }).waitFor()
  expect(page.url()).toContain('task=write-release')
  await page.reload()
  const dialog = page.getByRole('dialog', { name: /Reassign “/ })
  await dialog.getByLabel('Agent').selectOption(AGENTS[2]!.name)
  await page.goBack()
  await dialog.waitFor({ state: 'detached' })
  misbehaviour.check()
  await context.close()
})

it('says in a dialog that a link opened why it cannot be confirmed', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const reason = (name: string) => page.getByRole('dialog').getByRole('button', { name }).getAttribute('aria-description')
  await page.goto(`${all.server.url}/runs/${ended}?dialog=cancel`)
  expect(await reason('Cancel the run')).toBe('The run has ended.')
  await page.goto(`${all.server.url}/runs/${ended}?dialog=resume`)
  expect(await reason('Resume the run')).toBe('Only a paused run can be resumed; this one is completed.')
  await page.goto(`${all.server.url}/workflows/${workflow}?dialog=budget`)
  expect(await reason('Change the budget')).toBe('The workflow has stopped: resume it with another budget.')
  await page.goto(`${all.server.url}/graph/objects/${object}?dialog=restore`)
  expect(await reason('Restore the object')).toBe('The object is not deleted.')
  await page.goto(`${all.server.url}/secrets?dialog=replace&of=GONE_KEY`)
  expect(await reason('Replace the secret')).toBe('There is no such secret any more.')
  await page.goto(`${all.server.url}/settings?dialog=delete&of=default`)
  expect(await reason('Delete the project')).toBe('The project default cannot be deleted.')
  await all.server.api('DELETE', `/api/tokens/${token}`)
  await page.goto(`${all.server.url}/tokens?dialog=revoke&of=${token}`)
  expect(await reason('Revoke the token')).toBe('The token was revoked.')
  // What is not known opens nothing.
  await page.goto(`${all.server.url}/graph/objects/${object}?dialog=nothing`)
  await page.getByRole('heading', { level: 1, name: 'Second' }).waitFor()
  expect(await page.getByRole('dialog').count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('refuses in a dialog that a link opened what the token may not do', async () => {
  const { page, context, misbehaviour } = await visitAs(all.browser, all.server, ['admin:read', 'agents:read'])
  const cases = [
    ['/tokens?dialog=new', 'Create the token'],
    ['/budgets?dialog=change&of=brief', 'Save the limit'],
    ['/secrets?dialog=replace&of=MAIL_KEY', 'Replace the secret'],
    ['/secrets?dialog=rotate', 'Rotate the key'],
    ['/settings?dialog=new', 'Create the project'],
    ['/mcp-servers?dialog=new', 'Add the server'],
    ['/products?dialog=install', 'Show the plan'],
    ['/workflows?dispatch=demo', 'Run the demo'],
    ['/workflows?dispatch=new', 'Check the plan', 'agents:invoke'],
    [`/agents/${AGENTS[0]!.name}?dialog=edit`, /^Save/, 'agents:write'],
    [`/agents/${AGENTS[0]!.name}?dialog=trigger`, 'Start the run', 'agents:invoke'],
    ['/schedules?dialog=new-event', 'Save the event trigger', 'agents:write'],
  ] as const
  for (const [path, name, scope = 'admin:write'] of cases) {
    await page.goto(all.server.url + path)
    expect(await page.getByRole('dialog').getByRole('button', { name }).getAttribute('aria-description'), path).toContain(scope)
  }
  misbehaviour.check()
  await context.close()
})
