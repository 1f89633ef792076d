// What a person types is what is saved: numbers with all of their digits, no text as nothing, and a secret that is shown once.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { loseAnswer, startAll, visit } from './harness'
import { rehearsal, untilStatus, writeScripts } from './seed'
import { ask } from './seed-inbox'

/** The browser would round it to …996. */
const ACCOUNT = '9007199254740995'
const BANK = `
rules:
  - when: { step: 1 }
    answer:
      text: I note the account.
      calls: [{ tool: entities_update, input: { id: "Vendor/baltic", properties: { accountId: ${ACCOUNT}, iban: DE1 } } }]
  - when: {}
    answer: { text: Done. }
`
type All = Awaited<ReturnType<typeof startAll>>
let all: All

beforeAll(async () => {
  all = await startAll()
  const { server } = all
  writeScripts(server, { bank: BANK })
  await server.api('POST', '/api/admin/agents', { name: 'bank-clerk', model: rehearsal('bank'), tools: ['entities_*'], approvals: [{ tools: ['entities_update'], action: 'ask' }] })
  await server.api('PUT', '/api/graph/objects/upsert', { type: 'Vendor', key: 'baltic', properties: { name: 'Baltic Cargo' } })
  await server.api('PUT', '/api/coordination/budgets', { tokens: 90_000 })
})
afterAll(() => all?.stop())

/** An answer as the server wrote it. */
const read = async (path: string) => (await fetch(all.server.url + path, { headers: { Authorization: `Bearer ${all.server.token}` } })).text()

it('shows and approves a number with all of its digits', async () => {
  const { server } = all
  const item = await ask(server, 'bank-clerk', 'Note the account of Baltic Cargo.')
  const { page, context, misbehaviour } = await visit(all.browser, server)
  await page.goto(`${server.url}/inbox?item=${item.id}`)
  const request = page.getByRole('article', { name: 'The request' })
  await request.getByText(ACCOUNT).first().waitFor()
  await request.getByRole('button', { name: 'Edit the input' }).click()
  const input = request.getByLabel('Input of the call')
  expect(await input.inputValue()).toContain(`"accountId": ${ACCOUNT}`)
  await input.fill((await input.inputValue()).replace('DE1', 'DE2'))
  await request.getByRole('button', { name: 'Approve with this input' }).click()
  await page.getByText('The call was approved with the changed input.').waitFor()
  await untilStatus(server, item.runId!, 'completed')
  expect(await read(`/api/approvals/${item.id}`)).toContain(`"accountId":${ACCOUNT},"iban":"DE2"`)
  const [vendor] = await server.api<{ id: string }[]>('GET', '/api/graph/objects?type=Vendor&limit=1')
  expect(await read(`/api/graph/objects/${vendor!.id}`)).toContain(`"accountId":${ACCOUNT}`)

  await page.goto(`${server.url}/graph/objects/${vendor!.id}`)
  await page.getByText(ACCOUNT).first().waitFor()
  await page.getByRole('button', { name: 'Edit', exact: true }).click()
  const properties = page.getByRole('dialog').locator('textarea').first()
  expect(await properties.inputValue()).toContain(ACCOUNT)
  await properties.fill((await properties.inputValue()).replace('DE2', 'DE3').replace('{', '{ "customerId": 18446744073709551615,'))
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const saved = await read(`/api/graph/objects/${vendor!.id}`)
  for (const text of [`"accountId":${ACCOUNT}`, '"customerId":18446744073709551615', '"iban":"DE3"']) expect(saved).toContain(text)
  await page.getByText('18446744073709551615').first().waitFor()

  // The events of the run come as a stream.
  await page.goto(`${server.url}/runs/${item.runId}`)
  await page.getByText(ACCOUNT).first().waitFor()
  misbehaviour.check()
  await context.close()
})

it('never saves a text that is no number as no limit, and saves with Enter', async () => {
  const { server } = all
  const limit = async () => (await server.api<{ project: { limit: object } }>('GET', '/api/coordination/budgets')).project.limit
  const { page, context, misbehaviour } = await visit(all.browser, server)
  const dialog = page.getByRole('dialog')
  await page.goto(`${server.url}/budgets`)
  await page.getByRole('button', { name: 'Change the limit of the project' }).click()
  const tokens = dialog.getByLabel('Tokens')
  for (const text of ['80000-', '8e4', '80.5', 'many']) {
    await tokens.fill('')
    await tokens.pressSequentially(text)
    await dialog.getByText(/^This is no (whole )?number/).waitFor()
    await dialog.getByRole('button', { name: 'Save the limit' }).click()
    await tokens.press('Enter')
    expect(await tokens.evaluate((field) => field === document.activeElement)).toBe(true)
    expect(await limit()).toMatchObject({ tokens: 90_000 })
  }
  await tokens.fill('80,000')
  await tokens.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  expect(await limit()).toMatchObject({ tokens: 80_000 })

  // A field that is folded away is shown when it keeps the dialog from being sent.
  await page.goto(`${server.url}/agents/bank-clerk`)
  await page.getByRole('button', { name: /^Trigger/ }).first().click()
  await dialog.getByLabel('Input').fill('Note it.')
  await dialog.getByText('Context and limits of this run').click()
  await dialog.getByLabel('Most steps').fill('5-')
  await dialog.getByText('Context and limits of this run').click()
  await dialog.getByRole('button', { name: 'Start the run' }).click()
  await expect.poll(() => dialog.getByLabel('Most steps').evaluate((field) => field === document.activeElement)).toBe(true)
  misbehaviour.check()
  await context.close()
})

it('creates a token with Enter, and shows it until a button closes the dialog', async () => {
  const { server } = all
  const { page, context, misbehaviour } = await visit(all.browser, server)
  const dialog = page.getByRole('dialog')
  await page.goto(`${server.url}/tokens`)
  await page.getByRole('button', { name: 'Create a token' }).click()
  await dialog.getByLabel('Name').fill('Night import')
  await dialog.getByLabel('Valid for days').fill('1e10')
  await dialog.getByText('This is no whole number').waitFor()
  await dialog.getByLabel('Valid for days').fill('10000000000')
  await dialog.getByText('Use 1 to 36,500.').waitFor()
  await dialog.getByLabel('Name').press('Enter')
  await dialog.getByLabel('Valid for days').fill('30')
  await dialog.getByLabel('Valid for days').press('Enter')
  const created = page.getByRole('dialog', { name: 'The token Night import' })
  await created.waitFor()
  const secret = await created.locator('code').textContent()
  await page.keyboard.press('Escape')
  await page.mouse.click(5, 5)
  await page.keyboard.press('Enter')
  await page.waitForTimeout(300)
  expect(await created.locator('code').textContent()).toBe(secret)
  await created.getByRole('button', { name: 'I have copied it' }).click()
  await created.waitFor({ state: 'detached' })
  expect((await server.api<{ name: string }[]>('GET', '/api/tokens')).filter(({ name }) => name === 'Night import')).toHaveLength(1)
  misbehaviour.check()
  await context.close()
})

it('says at once what cannot be done: a name that is taken, a product that is not there, a file that is refused', async () => {
  const { server } = all
  const { page, context, misbehaviour } = await visit(all.browser, server, { expected: { statuses: [400, 404] } })
  await page.goto(`${server.url}/agents`)
  await page.getByRole('button', { name: 'Create an agent' }).click()
  await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('bank-clerk')
  await page.getByRole('dialog').getByText('There is an agent of this name already.').waitFor()
  await page.goto(`${server.url}/products/nope`)
  for (const name of ['Uninstall…', 'Upgrade…']) {
    const button = page.getByRole('button', { name })
    await expect.poll(() => button.getAttribute('aria-description')).toBe('There is no such product in this project.')
  }
  await page.goto(`${server.url}/documents`)
  await page.locator('input[type=file]').setInputFiles([{ name: 'bad.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 1, 2, 255, 254]) }])
  const uploads = page.getByRole('region', { name: 'Uploads' })
  await uploads.getByRole('alert').waitFor()
  expect(await uploads.getByRole('alert').textContent()).not.toMatch(/mimeType|content:/)
  misbehaviour.check()
  await context.close()
})

it('starts a run once when the answer is lost and the button is pressed again', async () => {
  const { server } = all
  const runs = async () => (await server.api<object[]>('GET', '/api/admin/runs?limit=100')).length
  const { page, context, misbehaviour } = await visit(all.browser, server)
  const dialog = page.getByRole('dialog')
  const start = dialog.getByRole('button', { name: 'Start the run' })
  const before = await runs()
  await page.goto(`${server.url}/agents/bank-clerk`)
  await page.getByRole('button', { name: /^Trigger/ }).first().click()
  await dialog.getByLabel('Input').fill('Note the account once.')
  await loseAnswer(page, '**/trigger')
  await start.click()
  await dialog.getByRole('alert').waitFor()
  expect(await runs()).toBe(before + 1)
  await start.click()
  await page.waitForURL('**/runs/*')
  expect(await runs()).toBe(before + 1)

  const conversations = async () => (await server.api<object[]>('GET', '/api/chat/conversations?limit=100')).length
  await page.goto(`${server.url}/chat?agent=bank-clerk`)
  await page.getByLabel('Message').fill('Note the account once more.')
  await loseAnswer(page, '**/api/chat/stream')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
  await page.getByLabel('Message').press('Enter')
  await page.waitForURL(/\/chat\/[0-9a-f-]{36}/)
  expect(await conversations()).toBe(1)
  misbehaviour.check()
  await context.close()
})
