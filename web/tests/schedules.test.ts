import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { rehearsal, writeScripts } from './seed'

type Triggers = { schedules: { name: string; cron: string; timeZone: string; missed: string; input: string | null; nextAt: string | null; dispatch?: { description?: string; budgetTokens?: number } | null }[]; events: { agentName: string; event: string; types: string[] }[] }

let all: Awaited<ReturnType<typeof startAll>>
const triggers = () => all.server.api<Triggers>('GET', '/api/admin/triggers')
const schedule = async (name: string) => (await triggers()).schedules.find((one) => one.name === name)

beforeAll(async () => {
  all = await startAll()
  const { api } = all.server
  const call = api.bind(all.server)
  writeScripts(all.server, { digest: 'rules:\n  - when: {}\n    answer: { text: "Two contracts were signed, and one invoice is overdue." }\n' })
  await call('POST', '/api/admin/agents', { name: 'morning-digest', description: 'Writes what is new.', model: rehearsal('digest'), trigger: '0 8 * * MON-FRI', config: { trigger: { time_zone: 'Europe/Berlin', input: "Write today's digest." } } })
  await call('POST', '/api/admin/agents', { name: 'invoice-checker', description: 'Compares invoices with agreed rates.', model: rehearsal('digest'), trigger: 'on_entity_created', config: { trigger: { types: ['Invoice'] } } })
  await call('POST', '/api/admin/agents', { name: 'contract-auditor', description: 'Compares contracts with what was paid.', model: rehearsal('digest') })
  await call('POST', '/api/admin/agents', { name: 'rate-watcher', description: 'Watches the freight rates.', model: { provider: 'openai', name: 'gpt-5-mini' }, trigger: 'on_entity_created', config: { trigger: { types: ['Rate'] } } })
  await call('PUT', '/api/admin/triggers/weekly-report', { trigger: '0 9 * * MON', config: { time_zone: 'Europe/Berlin' }, dispatch: { budgetTokens: 50000, tasks: [{ key: 'collect', title: 'Collect what is new', assignedAgent: 'morning-digest' }, { key: 'report', title: 'Write the report', assignedAgent: 'contract-auditor', blockedBy: ['collect'] }] } })
  for (const key of ['nw-2026-03', 'nw-2026-04']) await call('POST', '/api/graph/objects', { type: 'Invoice', key, properties: { number: key.toUpperCase() } })
  await call('POST', '/api/graph/objects', { type: 'Rate', key: 'hamburg-oslo', properties: { eur: 1240 } })
  const end = Date.now() + 20_000
  while ((await call<{ status: string }[]>('GET', '/api/admin/triggers/firings')).filter((one) => one.status !== 'pending').length < 3 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 100))
})
afterAll(() => all?.stop())

it('shows the schedules everywhere', { timeout: 240_000 }, () =>
  showEverywhere(all.browser, all.server, 'schedules', '/schedules', async (page) => {
    await page.getByRole('row').filter({ hasText: 'weekly-report' }).waitFor()
    await page.getByRole('row').filter({ hasText: 'Refused' }).first().waitFor()
  }))

it('creates a schedule of an agent with problems at their fields, changes it and deletes it', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/schedules`)
  await page.getByRole('button', { name: 'Create a schedule' }).click()
  const dialog = page.getByRole('dialog', { name: 'Create a schedule' })
  await dialog.getByLabel('Agent', { exact: true }).selectOption({ label: 'contract-auditor' })
  await dialog.getByLabel('Cron expression').fill('0 7 * *')
  await dialog.getByLabel('Time zone').fill('Europe/Berlin')
  await dialog.getByRole('button', { name: 'Save the schedule' }).click()
  await dialog.getByText('five are needed').waitFor()
  await dialog.getByLabel('Cron expression').fill('0 7 * * *')
  await dialog.getByLabel('Time zone').fill('Europe/Berln')
  await dialog.getByRole('button', { name: 'Save the schedule' }).click()
  await dialog.getByText('there is no time zone').waitFor()
  await dialog.getByLabel('Time zone').fill('Europe/Oslo')
  await dialog.getByLabel('Input').fill('Audit what was signed yesterday.')
  await dialog.getByRole('button', { name: 'Save the schedule' }).click()
  await page.getByText('The trigger of contract-auditor was saved.').waitFor()
  expect(await schedule('agent:contract-auditor')).toMatchObject({ cron: '0 7 * * *', timeZone: 'Europe/Oslo', input: 'Audit what was signed yesterday.', missed: 'once' })

  await page.getByRole('button', { name: 'Actions of contract-auditor' }).click()
  await page.getByRole('menuitem', { name: 'Edit…' }).click()
  const edit = page.getByRole('dialog', { name: 'Edit the schedule of contract-auditor' })
  await edit.getByLabel('Times missed').selectOption('skip')
  await edit.getByRole('button', { name: 'Save the schedule' }).click()
  await edit.waitFor({ state: 'detached' })
  expect(await schedule('agent:contract-auditor')).toMatchObject({ missed: 'skip', input: 'Audit what was signed yesterday.' })

  await page.getByRole('button', { name: 'Actions of contract-auditor' }).click()
  await page.getByRole('menuitem', { name: 'Delete…' }).click()
  await page.getByRole('button', { name: 'Delete the trigger' }).click()
  await page.getByText('The trigger of contract-auditor was deleted.').waitFor()
  expect(await schedule('agent:contract-auditor')).toBeUndefined()
  expect(await all.server.api('GET', '/api/admin/agents/contract-auditor')).toMatchObject({ trigger: null, config: {} })
  misbehaviour.check()
  await context.close()
})

it('saves triggers of workflows and keeps the settings that the form does not show', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/schedules`)
  await page.getByRole('button', { name: 'Actions of weekly-report' }).click()
  await page.getByRole('menuitem', { name: 'Edit…' }).click()
  const edit = page.getByRole('dialog', { name: 'Edit the schedule of weekly-report' })
  await edit.getByLabel('Cron expression').fill('30 9 * * MON')
  await edit.getByRole('button', { name: 'Save the schedule' }).click()
  await page.getByText('The trigger of weekly-report was saved.').waitFor()
  expect(await schedule('weekly-report')).toMatchObject({ cron: '30 9 * * MON', dispatch: { budgetTokens: 50000 } })

  await page.getByRole('button', { name: 'Create an event trigger' }).click()
  const dialog = page.getByRole('dialog', { name: 'Create an event trigger' })
  await dialog.getByLabel('Agent', { exact: true }).selectOption({ label: 'contract-auditor' })
  await dialog.getByLabel('Object types').fill('Contract')
  await dialog.getByRole('button', { name: 'Save the event trigger' }).click()
  await page.getByText('The trigger of contract-auditor was saved.').waitFor()
  expect((await triggers()).events).toContainEqual(expect.objectContaining({ agentName: 'contract-auditor', event: 'on_entity_created', types: ['Contract'] }))
  misbehaviour.check()
  await context.close()
})

it('runs a schedule now, and lists a firing with a link to its run', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/schedules?firings=admitted`)
  await page.getByRole('link', { name: 'Run of invoice-checker' }).first().waitFor()
  await page.getByRole('button', { name: 'Run now… morning-digest' }).click()
  await page.getByRole('button', { name: 'Start the run' }).click()
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}/)
  const run = await all.server.api<{ agentName: string }>('GET', `/api/admin/runs/${page.url().split('/').pop()}`)
  expect(run.agentName).toBe('morning-digest')
  misbehaviour.check()
  await context.close()
})
