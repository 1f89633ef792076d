import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectAccessible, showEverywhere, startAll, visit } from './harness'
import { seed } from './seed'

type Agent = { name: string; version: number; tools: string[]; description: string; maxSteps: number | null; model: { provider: string; name: string } | null }

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  await seed(all.server)
  await all.server.api('PATCH', '/api/admin/agents/note-cleaner', { systemPrompt: 'You keep the notes of the team in order.\n\nRemove a note only if it is older than a year and nothing refers to it. Say what you removed and why.', maxSteps: 20 })
})
afterAll(() => all?.stop())
const agent = (name: string) => all.server.api<Agent>('GET', `/api/admin/agents/${name}`)

it('shows the agents everywhere', () =>
  showEverywhere(all.browser, all.server, 'agents', '/agents', (page) => page.getByRole('link', { name: 'note-cleaner' }).waitFor()))

it('shows an agent everywhere', () =>
  showEverywhere(all.browser, all.server, 'agent', '/agents/note-cleaner', (page) => page.getByText('You keep the notes').waitFor()))

it('shows the form of an agent everywhere', () =>
  showEverywhere(all.browser, all.server, 'agent-edit', '/agents/note-cleaner?dialog=edit', (page) => page.getByRole('button', { name: /Save/ }).waitFor()))

it('creates an agent, shows problems at their fields, and edits it', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/agents`)
  await page.getByRole('button', { name: 'Create an agent' }).first().click()
  const dialog = page.getByRole('dialog', { name: 'Create an agent' })
  await dialog.getByLabel('Name', { exact: true }).fill('contract reader')
  await dialog.getByText('Use 1 to 100 letters').waitFor()
  const create = dialog.getByRole('button', { name: 'Create the agent' })
  expect(await create.getAttribute('aria-disabled')).toBe('true')
  expect(await create.getAttribute('aria-description')).toMatch(/^Use 1 to 100 letters/)
  await dialog.getByLabel('Name', { exact: true }).fill('contract-reader')
  await dialog.getByLabel('Most steps').fill('501')
  await dialog.getByText('Use 1 to 500 steps.').first().waitFor()
  expect(await create.getAttribute('aria-description')).toBe('Use 1 to 500 steps.')
  await dialog.getByLabel('Most steps').fill('')
  await expect.poll(() => create.getAttribute('aria-disabled')).toBeNull()
  await dialog.getByLabel('Tools', { exact: true }).fill('search_hybrid\nentities_gte')
  await dialog.getByText('There is no tool “entities_gte”.').waitFor()
  await create.click()
  await dialog.getByLabel('Tools', { exact: true }).fill('search_hybrid')
  await dialog.getByLabel('Model', { exact: true }).pressSequentially('rehearsal/researcher')
  expect(await dialog.getByLabel('Provider').inputValue()).toBe('rehearsal')
  expect(await dialog.getByLabel('Model', { exact: true }).inputValue()).toBe('researcher')
  await create.click()
  await page.waitForURL('**/agents/contract-reader')
  expect(await agent('contract-reader')).toMatchObject({ version: 1, tools: ['search_hybrid'], model: { provider: 'rehearsal', name: 'researcher' } })

  await page.getByRole('button', { name: 'Edit…' }).click()
  const edit = page.getByRole('dialog', { name: 'Edit contract-reader' })
  await edit.getByLabel('Description').fill('Reads contracts and names their terms.')
  await edit.getByRole('tab', { name: 'JSON' }).click()
  const json = edit.getByLabel('Definition as JSON')
  const text = await json.inputValue()
  await json.fill(`${text}}`)
  await edit.getByText('This is not JSON').waitFor()
  const form = edit.getByRole('tab', { name: 'Form' })
  await form.click()
  await edit.getByText('Correct the JSON first: otherwise its text would be lost.').waitFor()
  expect(await json.inputValue()).toBe(`${text}}`)
  // What no form can show, and a field that no agent has, are named and not sent.
  for (const [part, problem] of [[{ tools: 'search_hybrid' }, 'tools has to be a list of names.'], [{ maxStep: 7 }, 'maxStep is no field of an agent.']] as const) {
    await json.fill(JSON.stringify({ ...(JSON.parse(text) as object), ...part }))
    await edit.getByText(problem).waitFor()
    await form.click()
    expect(await edit.getByRole('button', { name: /^Save/ }).getAttribute('aria-disabled')).toBe('true')
  }
  await json.fill(JSON.stringify({ ...(JSON.parse(text) as object), maxSteps: 7 }))
  await edit.getByRole('button', { name: 'Save 2 changes' }).click()
  await page.getByText('contract-reader is now at version 2.').waitFor()
  expect(await agent('contract-reader')).toMatchObject({ version: 2, description: 'Reads contracts and names their terms.', maxSteps: 7 })
  await page.getByRole('tab', { name: /Versions/ }).click()
  await page.getByRole('region', { name: 'Changes' }).getByText('"maxSteps": 7').waitFor()
  misbehaviour.check()
  await context.close()
})

it('says in the history of a definition who wrote each version', async () => {
  await all.server.api('POST', '/api/admin/agents', { name: 'letter-sorter', systemPrompt: 'You sort letters.' })
  const deputy = await all.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Deputy', scopes: ['agents:read', 'agents:write'] })
  const changed = await fetch(`${all.server.url}/api/admin/agents/letter-sorter`, { method: 'PATCH', headers: { Authorization: `Bearer ${deputy.token}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ systemPrompt: 'You sort letters by date.' }) })
  expect(changed.ok).toBe(true)
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/agents/letter-sorter?tab=versions`)
  await page.getByRole('button', { name: /^Version 2\s*Token Deputy/ }).waitFor()
  const main = page.getByRole('main')
  await main.locator('strong').getByText('Deputy', { exact: true }).waitFor()
  await page.getByRole('button', { name: /^Version 1\s*Token / }).click()
  await main.locator('strong').getByText('Deputy', { exact: true }).waitFor({ state: 'detached' })
  misbehaviour.check()
  await context.close()
})

it('triggers an agent and opens its run', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/agents/researcher`)
  await page.getByRole('button', { name: 'Trigger…' }).click()
  await page.getByLabel('Input').fill('What do we know about contracts?')
  await page.getByRole('button', { name: 'Start the run' }).click()
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}/)
  const run = await all.server.api<{ agentName: string }>('GET', `/api/admin/runs/${page.url().split('/').pop()}`)
  expect(run.agentName).toBe('researcher')
  misbehaviour.check()
  await context.close()
})

it('deletes an agent', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  await all.server.api('POST', '/api/admin/agents', { name: 'old-helper' })
  await page.goto(`${all.server.url}/agents/old-helper`)
  await page.getByRole('button', { name: 'Delete…' }).click()
  await page.getByRole('button', { name: 'Delete the agent' }).click()
  await page.waitForURL('**/agents')
  await expect(agent('old-helper')).rejects.toThrow('404')
  misbehaviour.check()
  await context.close()
})

it('asks before Escape or a click beside a dialog discards what was typed', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/agents`)
  const dialog = page.getByRole('dialog', { name: 'Create an agent' })
  const open = () => page.getByRole('button', { name: 'Create an agent' }).first().click()
  const question = page.getByRole('alertdialog', { name: 'Discard what you wrote?' })
  const name = dialog.getByLabel('Name', { exact: true })
  // Nothing was typed, so there is nothing to ask.
  await open()
  await name.waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })

  await open()
  await name.fill('contract-writer')
  await page.keyboard.press('Escape')
  await question.waitFor()
  await expectAccessible(page, 'the question of a dialog')
  // The button that keeps it has the focus, and leads back to the field.
  await page.keyboard.press('Enter')
  await question.waitFor({ state: 'detached' })
  expect(await name.evaluate((field) => field === document.activeElement)).toBe(true)
  expect(await name.inputValue()).toBe('contract-writer')
  await page.keyboard.press('Escape')
  await question.waitFor()
  await page.keyboard.press('Escape')
  await question.waitFor({ state: 'detached' })
  await page.mouse.click(5, 400)
  await question.getByRole('button', { name: 'Discard' }).click()
  await dialog.waitFor({ state: 'detached' })

  // A button of the dialog does not ask.
  await open()
  await name.fill('contract-writer')
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  await dialog.waitFor({ state: 'detached' })
  misbehaviour.check()
  await context.close()
})

it('suggests nothing in the palette that a button of the agents refuses, and says why to whoever searches for it', async () => {
  await all.server.api('POST', '/api/admin/agents', { name: 'summariser', visibility: 'internal' })
  /** What the palette offers on a page of agents, once the page is there. */
  const offers = async (page: Page, path: string, ready: string) => {
    await page.goto(all.server.url + path)
    await page.getByText(ready).first().waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: /^Agents/ }).first().waitFor()
    const found = await page.getByRole('option').allInnerTexts()
    await page.keyboard.press('Escape')
    return found.map((text) => text.trim()).filter((text) => /^(Create an agent|Trigger this agent|Edit this agent)/.test(text))
  }
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  expect(await offers(page, '/agents', 'note-cleaner')).toEqual(['Create an agent…'])
  expect(await offers(page, '/agents/note-cleaner', 'You keep the notes')).toEqual(['Trigger this agent…', 'Edit this agent…', 'Create an agent…'])
  // Only other agents start an internal one.
  expect(await offers(page, '/agents/summariser', 'internal')).toEqual(['Edit this agent…', 'Create an agent…'])
  misbehaviour.check()
  await context.close()

  const { token } = await all.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Reader', scopes: ['admin:read', 'agents:read', 'graph:read'] })
  const reader = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await reader.page.goto(`${all.server.url}/agents`)
  await reader.page.getByLabel('Token').fill(token)
  await reader.page.keyboard.press('Enter')
  await reader.page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor()
  expect(await offers(reader.page, '/agents', 'note-cleaner')).toEqual([])
  expect(await offers(reader.page, '/agents/note-cleaner', 'You keep the notes')).toEqual([])
  const { page: readerPage } = reader
  await readerPage.keyboard.press('Control+k')
  await readerPage.keyboard.type('agent')
  const refused = readerPage.getByRole('option', { name: 'Edit this agent… Your token lacks the scope agents:write.' })
  await refused.waitFor()
  await readerPage.getByRole('option', { name: /^Create an agent… Your token lacks/ }).waitFor()
  expect(await refused.getAttribute('aria-disabled')).toBe('true')
  // What can be run is chosen first.
  expect(await readerPage.locator('[role=option][aria-selected=true]').innerText()).toMatch(/^Agents/)
  for (const theme of ['light', 'dark'] as const) {
    await readerPage.emulateMedia({ colorScheme: theme })
    await readerPage.locator(`html[data-theme=${theme}]`).waitFor({ state: 'attached' })
    for (const [width, height] of [[1280, 800], [390, 844]] as const) {
      await readerPage.setViewportSize({ width, height })
      await readerPage.screenshot({ path: `tests/screenshots/palette-refused-${theme}-${width}.png`, animations: 'disabled' })
    }
    await expectAccessible(readerPage, `palette with refused actions, ${theme}`)
  }
  const address = readerPage.url()
  await refused.click({ force: true })
  await readerPage.keyboard.press('Enter')
  expect(await readerPage.getByRole('combobox').evaluate((field) => field === document.activeElement)).toBe(true)
  expect([readerPage.url(), await readerPage.getByRole('dialog').count()]).toEqual([address, 1])
  reader.misbehaviour.check()
  await reader.context.close()
})
