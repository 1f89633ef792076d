import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
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
  await dialog.getByLabel('Name', { exact: true }).fill('contract-reader')
  await dialog.getByLabel('Tools', { exact: true }).fill('search_hybrid\nentities_gte')
  await dialog.getByText('There is no tool “entities_gte”.').waitFor()
  await dialog.getByRole('button', { name: 'Create the agent' }).click()
  await dialog.getByLabel('Tools', { exact: true }).fill('search_hybrid')
  await dialog.getByLabel('Provider').fill('rehearsal')
  await dialog.getByLabel('Model', { exact: true }).fill('researcher')
  await dialog.getByRole('button', { name: 'Create the agent' }).click()
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
  await json.fill(JSON.stringify({ ...(JSON.parse(text) as object), maxSteps: 7 }))
  await edit.getByRole('button', { name: 'Save 2 changes' }).click()
  await page.getByText('contract-reader is now at version 2.').waitFor()
  expect(await agent('contract-reader')).toMatchObject({ version: 2, description: 'Reads contracts and names their terms.', maxSteps: 7 })
  await page.getByRole('tab', { name: /Versions/ }).click()
  await page.getByRole('region', { name: 'Changes' }).getByText('"maxSteps": 7').waitFor()
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
