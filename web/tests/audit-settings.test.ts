import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'

type Project = { name: string; strict: boolean; retention: { runsDays: number | null }; webhook?: { url: string; secret: string } | null }

let all: Awaited<ReturnType<typeof startAll>>
const project = (name: string) => all.server.api<Project>('GET', `/api/projects/${name}`)

beforeAll(async () => {
  all = await startAll({ env: { OPENAI_API_KEY: 'sk-not-a-real-key' } })
  const call = all.server.api.bind(all.server)
  for (const name of ['contract-auditor', 'invoice-checker', 'report-writer']) await call('POST', '/api/admin/agents', { name, description: 'Works for the purchasing department.', model: { provider: 'rehearsal', name: 'echo' } })
  await call('PATCH', '/api/admin/agents/report-writer', { maxSteps: 12 })
  await call('PUT', '/api/coordination/budgets', { usd: 20 })
  await call('PUT', '/api/admin/secrets/WEBHOOK_KEY', { value: 'a-long-secret-for-notices' })
  await call('POST', '/api/tokens', { name: 'purchasing-dashboard', scopes: ['graph:read', 'agents:read'] })
  await call('POST', '/api/projects', { name: 'logistics' })
})
afterAll(() => all?.stop())

it('shows the audit everywhere', { timeout: 240_000 }, () =>
  showEverywhere(all.browser, all.server, 'audit', '/audit', async (page) => {
    await page.getByRole('button', { name: /purchasing-dashboard/ }).click()
    await page.getByText('scopes:').waitFor()
  }))

it('shows the settings everywhere', { timeout: 240_000 }, () =>
  showEverywhere(all.browser, all.server, 'settings', '/settings', async (page) => {
    await page.getByText('OPENAI_API_KEY').first().waitFor()
    await page.getByText('Version', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Delete logistics' }).waitFor()
  }))

it('filters the audit by what the URL says', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/audit`)
  await page.getByRole('listitem').filter({ hasText: 'Budget changed' }).first().waitFor()
  await page.getByLabel('Action').locator('option', { hasText: 'MCP server: all' }).waitFor({ state: 'attached' })
  await page.getByLabel('Action').selectOption('agent')
  await page.waitForURL(/action=agent/)
  await page.getByText('4 shown').waitFor()
  await page.getByLabel('Search the subjects').fill('report')
  await page.waitForURL(/subject=report/)
  await page.getByText('2 shown').waitFor()
  await page.reload()
  await page.getByText('2 shown').waitFor()
  await page.goto(`${all.server.url}/audit?until=2020-01-01T00:00:00Z`)
  await page.getByText('No entry matches these filters.').waitFor()
  misbehaviour.check()
  await context.close()
})

it('saves the retention and the webhook of the project', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/settings`)
  await page.getByLabel('Ended runs').fill('90')
  await page.getByRole('button', { name: 'Save the project' }).click()
  await page.getByText('The project was saved.').waitFor()
  expect((await project('default')).retention.runsDays).toBe(90)
  const work = page.getByLabel('Who gets tasks')
  const save = page.getByRole('button', { name: 'Save the project' })
  await work.fill('{ "selectionRules": [')
  expect(await save.getAttribute('aria-description')).toBe('Correct the JSON first.')
  await work.fill('{ "selectInternalAgents": true, "selectionRules": [{ "pattern": "", "agent": "report-writer" }] }')
  await save.click()
  await page.locator('textarea[aria-invalid=true]').waitFor()
  await work.fill('{ "selectInternalAgents": true, "selectionRules": [{ "pattern": "kind:research", "agent": "report-writer" }], "discussions": { "rounds": 2 } }')
  await save.click()
  await expect.poll(() => project('default')).toMatchObject({ selectInternalAgents: true, selectionRules: [{ pattern: 'kind:research', agent: 'report-writer' }], discussions: { rounds: 2 }, retention: { runsDays: 90 } })
  await expect.poll(() => save.getAttribute('aria-description')).toBe('Nothing was changed yet.')
  await page.getByLabel('Address').fill('https://hooks.example.com/emergent')
  // It is not left behind without a question.
  await page.getByRole('link', { name: 'Agents', exact: true }).click()
  await page.getByRole('button', { name: 'Keep as it is' }).click()
  expect(await page.getByLabel('Address').inputValue()).toBe('https://hooks.example.com/emergent')
  await page.getByLabel('Secret that signs').selectOption('WEBHOOK_KEY')
  await page.getByLabel('Address').press('Enter')
  await page.getByText('The webhook was saved.').waitFor()
  expect((await project('default')).webhook).toMatchObject({ url: 'https://hooks.example.com/emergent', secret: 'WEBHOOK_KEY' })
  await page.getByRole('button', { name: 'Remove it' }).click()
  await page.getByText('The webhook was removed.').waitFor()
  expect(await page.getByLabel('Address').inputValue()).toBe('')
  expect((await project('default')).webhook ?? null).toBeNull()
  misbehaviour.check()
  await context.close()
})

it('creates a project, and deletes it only after its name was typed', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400, 409] } })
  await page.goto(`${all.server.url}/settings`)
  await page.getByRole('button', { name: 'Create a project' }).click()
  await page.getByLabel('Name of the project').fill('north sea')
  await page.getByRole('button', { name: 'Create the project' }).click()
  await page.locator('[aria-invalid]').waitFor()
  await page.getByLabel('Name of the project').fill('north-sea')
  await page.getByRole('button', { name: 'Create the project' }).click()
  await page.getByText('The project north-sea was created.').waitFor()
  expect((await project('north-sea')).name).toBe('north-sea')
  await page.getByRole('button', { name: 'Delete north-sea' }).click()
  const confirm = page.getByRole('button', { name: 'Delete the project' })
  expect(await confirm.getAttribute('aria-disabled')).toBe('true')
  await page.getByLabel('Type north-sea to confirm').fill('north-sea')
  await confirm.click()
  await page.getByText('The project north-sea was deleted.').waitFor()
  await expect(project('north-sea')).rejects.toThrow('404')
  misbehaviour.check()
  await context.close()
})
