import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { audit, seedWork } from './seed-work'

let all: Awaited<ReturnType<typeof startAll>>
let run: string
const folder = mkdtempSync(join(tmpdir(), 'emergent-prices-'))
beforeAll(async () => {
  // Scripts cost nothing, and nothing can be added up only wrongly.
  writeFileSync(join(folder, 'prices.toml'), '["rehearsal/"]\ninput = 300.0\noutput = 1500.0\n')
  all = await startAll({ env: { EMERGENT_MODEL_PRICES: join(folder, 'prices.toml') } })
  await seedWork(all.server)
  run = await audit(all.server)
})
afterAll(async () => {
  await all?.stop()
  rmSync(folder, { recursive: true, force: true })
})

type Detail = { id: string; agentId: string; status: string; resumedAs?: string }

it('shows a run in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'run', `/runs/${run}`, async (page) => {
    // The end of the transcript is far below, so it is not in the document.
    await page.getByRole('heading', { level: 1 }).getByText('Completed').waitFor()
    await page.getByText(/^\d+ entries$/).waitFor()
    await page.getByRole('link', { name: /risk-analyst/ }).first().waitFor()
  }), 180_000)

it('shows the transcript in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'run-transcript', `/runs/${run}`, async (page) => {
    await page.getByText('I look up the contract').waitFor({ state: 'attached' })
    await page.getByRole('tab', { name: 'Transcript' }).evaluate((tab) => window.scrollTo(0, tab.getBoundingClientRect().top + scrollY - 60))
    await page.getByRole('log').getByRole('button', { name: /entities_get/ }).first().click()
    await page.getByRole('log').getByText('M. Keller').waitFor()
  }), 180_000)

it('shows the changes of a run in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'run-writes', `/runs/${run}?tab=writes`, async (page) => {
    await page.getByRole('link', { name: 'Finding/northwind-fuel-surcharge' }).first().waitFor()
    await page.getByRole('tab', { name: 'Changes to the graph' }).evaluate((tab) => window.scrollTo(0, tab.getBoundingClientRect().top + scrollY - 60))
  }), 180_000)

it('shows tokens and cost by step in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'run-steps', `/runs/${run}?tab=steps`, async (page) => {
    await page.getByRole('rowheader', { name: '4', exact: true }).waitFor()
    await page.getByRole('tab', { name: 'Tokens and cost' }).evaluate((tab) => window.scrollTo(0, tab.getBoundingClientRect().top + scrollY - 60))
  }), 180_000)

it('shows what the run changed in each thing, as it was before and as the run left it', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${run}?tab=writes`)
  const written = (tool: string, thing: string) => page.getByRole('listitem').filter({ hasText: `${tool}, step 3` }).filter({ hasText: thing })
  /** The lines that only one side has. */
  const changes = async (tool: string, thing: string) => {
    const diff = written(tool, thing).getByRole('region', { name: /^Changes of object / })
    await diff.waitFor()
    return (await diff.locator('> div').allInnerTexts()).map((line) => line.replaceAll(/\s+/g, ' ').trim()).filter((line) => /^[+−]/.test(line))
  }
  expect(await changes('entities_update', 'Contract/northwind-2026')).toEqual([
    '− removed: "status": "active"',
    '+ added: "status": "renegotiate"',
    '− removed: "annualValueEur": 394000',
    '+ added: "annualValueEur": 412000',
    '− removed: "reviewer": "M. Keller"',
    '+ added: "risk": "high"',
  ])
  const created = await changes('entities_create', 'Finding/northwind-fuel-surcharge')
  expect(created.every((line) => line.startsWith('+'))).toBe(true)
  expect(created.join('\n')).toContain('"amountEur": 18240')
  const deleted = await changes('entities_delete', 'Note/northwind-reminder')
  expect(deleted.every((line) => line.startsWith('−'))).toBe(true)
  expect(deleted.join('\n')).toContain('Call Northwind about the March invoices')
  for (const [tool, thing, how] of [['entities_update', 'Contract/', 'Changed'], ['entities_create', 'Finding/', 'Created'], ['entities_delete', 'Note/', 'Deleted']] as const) await written(tool, thing).getByText(how, { exact: true }).first().waitFor()
  misbehaviour.check()
  await context.close()
})

it('adds up the tokens, the cost and the calls of the steps to those of the run', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${run}?tab=steps`)
  const table = page.getByRole('region', { name: 'Tokens and cost by step' })
  const steps = table.locator('tbody tr')
  await expect.poll(() => steps.count(), { timeout: 30_000 }).toBe(4)
  const heads = await table.getByRole('columnheader').allInnerTexts()
  const number = (text: string) => Number(/[\d,.]+/.exec(text)?.[0].replaceAll(',', ''))
  /** The numbers of a row: input, cached, output, dollars, calls. The title has all digits of an amount. */
  const read = async (row: ReturnType<typeof table.locator>) => {
    const cells = await row.locator('th, td').allInnerTexts()
    const usd = await row.locator('[title^="$"]').getAttribute('title')
    return [...['Input', 'Cached', 'Output', 'Calls'].map((head) => number(cells[heads.indexOf(head)]!)), number(usd!)]
  }
  const rows = await Promise.all((await steps.all()).map(read))
  const sums = rows.reduce((sum, row) => sum.map((value, index) => value + row[index]!))
  const shown = await read(table.locator('tfoot tr'))
  for (const [index, sum] of sums.entries()) expect(shown[index]).toBeCloseTo(sum, 6)
  // Nothing is compared with nothing.
  for (const row of rows) expect([row[0]! > 0, row[2]! > 0, row[4]! > 0]).toEqual([true, true, true])
  const { tokenUsage, toolCallSummary } = await all.server.api<{ tokenUsage: { totalInput: number; totalOutput: number; totalCost: number }; toolCallSummary: { total: number } }>('GET', `/api/admin/runs/${run}`)
  expect([shown[0], shown[2], shown[3]]).toEqual([tokenUsage.totalInput, tokenUsage.totalOutput, toolCallSummary.total])
  expect(shown[4]).toBeCloseTo(tokenUsage.totalCost, 6)
  misbehaviour.check()
  await context.close()
})

it('shows what was said and done, and loads a call when it is opened', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${run}`)
  const log = page.getByRole('log', { name: 'Transcript' })
  await log.getByText('I look up the contract').waitFor()
  await page.getByLabel('What is shown').selectOption('errors')
  await page.waitForURL(/show=errors/)
  await page.getByText(/^1 of \d+ entries$/).waitFor()
  const failed = log.getByRole('button', { name: /entities_get/ })
  expect(await failed.count()).toBe(1)
  await failed.click()
  await log.getByText('Contract/northwind-2019').first().waitFor()
  await log.getByRole('heading', { name: 'Error' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('selects a call in the timeline by pointer and by keyboard', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${run}`)
  const timeline = page.getByRole('listbox', { name: /calls over time/ })
  const spawn = timeline.getByRole('option', { name: /^spawn_agents/ })
  await spawn.hover()
  await page.getByText('spawn_agents · step 2').or(page.locator('p', { hasText: 'spawn_agents · step 2' })).first().waitFor()
  await spawn.click()
  await page.waitForURL(/item=/)
  await page.getByRole('log').getByRole('button', { name: /spawn_agents/, expanded: true }).waitFor()
  const before = new URL(page.url()).searchParams.get('item')
  await timeline.focus()
  for (let count = 0; count < 20; count++) await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Enter')
  await page.waitForFunction((before) => new URLSearchParams(location.search).get('item') !== before, before)
  misbehaviour.check()
  await context.close()
})

it('cancels a run that is at work', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const id = await trigger(all.server, 'rate-watcher', 'Watch the rates of Harbour Freight.')
  await page.goto(`${all.server.url}/runs/${id}`)
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click()
  await page.getByRole('heading', { level: 1 }).getByText('Cancelled').waitFor()
  await untilStatus(all.server, id, 'cancelled')
  misbehaviour.check()
  await context.close()
})

it('resumes a paused run and shows the chain', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const id = await trigger(all.server, 'contract-auditor', 'Audit the contract again.', { maxSteps: 1 })
  await untilStatus(all.server, id, 'paused')
  await page.goto(`${all.server.url}/runs/${id}`)
  await page.getByText('It used all of its steps').waitFor()
  await page.getByRole('button', { name: 'Resume…' }).click()
  await page.getByLabel('What to tell the agent').fill('Look at the invoices of March as well.')
  await page.getByRole('button', { name: 'Resume the run' }).click()
  await page.waitForURL((url) => url.pathname.startsWith('/runs/') && !url.pathname.endsWith(id))
  const next = new URL(page.url()).pathname.split('/').pop()!
  expect((await all.server.api<Detail>('GET', `/api/admin/runs/${id}`)).resumedAs).toBe(next)
  await page.locator(`ol a[href="/runs/${id}"]`).waitFor()
  await page.getByText('Look at the invoices of March as well.').first().waitFor()
  // Each run of the chain counts its own steps.
  await untilStatus(all.server, next, 'paused', 'completed')
  await page.getByRole('meter', { name: /^Steps: [01] of 1$/ }).waitFor()
  await page.locator(`ol a[href="/runs/${id}"]`).getByText('1 step', { exact: true }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('stops the clock of a run that waits for a person, and leads to its request', async () => {
  writeScripts(all.server, { careful: 'rules:\n  - when: { step: 1 }\n    answer: { text: I remove it., calls: [{ tool: entities_delete, input: { id: "Note/draft" } }] }\n  - when: {}\n    answer: { text: Done. }\n' })
  await all.server.api('POST', '/api/graph/objects', { type: 'Note', key: 'draft', properties: { title: 'A draft' } })
  await all.server.api('POST', '/api/admin/agents', { name: 'careful-auditor', systemPrompt: 'You help.', tools: ['entities_*'], model: rehearsal('careful'), approvals: [{ tools: ['entities_delete'], action: 'ask' }], defaultTimeout: 600 })
  const id = await trigger(all.server, 'careful-auditor', 'Audit the contract.')
  await untilStatus(all.server, id, 'waiting')
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.clock.install()
  await page.goto(`${all.server.url}/runs/${id}`)
  await page.getByText('The clock stands still while it waits.').waitFor()
  await page.getByRole('log', { name: 'Transcript' }).getByText('Waits for a person').first().waitFor()
  const used = async () => Number(await page.getByRole('meter', { name: /^Time/ }).getAttribute('aria-valuenow'))
  const before = await used()
  expect(before).toBeLessThan(600_000)
  // Minutes pass for the page: what tells the time has told it, and the meter has not moved.
  await page.clock.fastForward('05:00')
  await page.getByText(/^[56] min ago$/).first().waitFor()
  expect(await used()).toBe(before)
  await page.getByRole('log', { name: 'Transcript' }).getByRole('button', { name: /entities_\w+ waits for a person/ }).first().waitFor()
  await page.getByRole('list', { name: 'Warnings' }).getByRole('link', { name: 'Open the request' }).click()
  await page.waitForURL(/\/inbox\?item=[0-9a-f-]{36}/)
  await page.getByRole('article', { name: 'The request' }).getByText(/careful-auditor wants to call/).waitFor()
  // Nobody decides any more: the call neither waits nor runs.
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids: [id] })
  await untilStatus(all.server, id, 'cancelled')
  await page.goto(`${all.server.url}/runs/${id}`)
  await page.getByRole('log', { name: 'Transcript' }).getByRole('button', { name: /entities_delete not made/ }).click()
  await page.getByText('The run ended before anybody decided, so the call was not made.').waitFor()
  misbehaviour.check()
  await context.close()
})

it('says what a revert would undo, and undoes it', async () => {
  const contract = () => all.server.api<{ status: string; properties: { reviewer?: string } }>('GET', '/api/graph/objects/Contract%2Fnorthwind-2026')
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${run}`)
  expect((await contract()).status).toBe('renegotiate')
  await page.getByRole('button', { name: 'Revert…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('Finding/northwind-fuel-surcharge').waitFor()
  expect((await contract()).status).toBe('renegotiate')
  await dialog.getByRole('button', { name: /^Revert \d+ things/ }).click()
  await page.getByText(/were reverted/).waitFor()
  expect(await contract()).toMatchObject({ status: 'active', properties: { reviewer: 'M. Keller' } })
  misbehaviour.check()
  await context.close()
})
