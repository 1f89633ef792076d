import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { held, showEverywhere, startAll, visit } from './harness'
import { seed, trigger, untilStatus } from './seed'

let all: Awaited<ReturnType<typeof startAll>>
let seeded: Awaited<ReturnType<typeof seed>>
beforeAll(async () => {
  all = await startAll()
  seeded = await seed(all.server)
})
afterAll(() => all?.stop())

it('shows the overview in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'overview', '/', async (page) => {
    await page.getByText('Read invoice').or(page.getByRole('link', { name: 'invoice-reader' })).first().waitFor()
    await page.getByRole('link', { name: /old|entities_delete/ }).first().waitFor()
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  }))

it('shows the runs in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'runs', '/runs', async (page) => {
    await page.getByRole('row').filter({ hasText: 'invoice-reader' }).first().waitFor()
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  }))

it('shows a run that waits for approval in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'run-waiting', `/runs/${seeded.waiting}`, async (page) => {
    await page.getByRole('log').getByRole('link', { name: 'Open the request' }).scrollIntoViewIfNeeded()
  }))

/** Starts a run that waits for approval, and returns the id of its request. */
async function request(input: string): Promise<string> {
  const run = await trigger(all.server, 'note-cleaner', input)
  await untilStatus(all.server, run, 'waiting')
  const [item] = await all.server.api<{ id: string }[]>('GET', `/api/approvals?runId=${run}&status=pending`)
  return item!.id
}
const rowOf = (page: Page, id: string) => page.getByRole('listitem').filter({ has: page.locator(`a[href*="${id}"]`) })

it('decides an approval without leaving the page', async () => {
  await all.server.api('POST', '/api/graph/objects', { type: 'Note', key: 'old', properties: { title: 'Old' } }).catch(() => undefined)
  const item = { id: await request('Remove the old note once more.') }
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  const row = rowOf(page, item.id)
  // The name says what would be approved, because there may be many of these buttons.
  await row.getByRole('button', { name: /^Approve… entities_delete.*Note\/old/ }).click()
  const dialog = page.getByRole('dialog', { name: 'note-cleaner wants to call entities_delete' })
  await dialog.getByText('Deletes Note/old and its relationships.').waitFor()
  await dialog.getByRole('button', { name: 'Approve', exact: true }).waitFor()
  await page.keyboard.press('Escape')
  await row.getByRole('button', { name: 'Deny…' }).click()
  await dialog.getByLabel('Reason').fill('It is still needed.')
  await dialog.getByRole('button', { name: 'Deny the call' }).click()
  await page.getByText('The call was denied.').waitFor()
  await row.waitFor({ state: 'detached' })
  // The focus stays where the request was, although its buttons are gone.
  await page.waitForFunction(() => document.activeElement?.closest('section')?.textContent?.startsWith('Needs you'))
  expect(await all.server.api('GET', `/api/approvals/${item.id}`)).toMatchObject({ status: 'decided', decision: { decision: 'deny', reason: 'It is still needed.' } })
  misbehaviour.check()
  await context.close()
})

it('approves a call without leaving the page, and the run goes on', async () => {
  await all.server.api('PUT', '/api/graph/objects/upsert', { type: 'Note', key: 'old', properties: { title: 'Old' } })
  const id = await request('Remove the old note now.')
  const { runId } = await all.server.api<{ runId: string }>('GET', `/api/approvals/${id}`)
  // What would change is asked for once more when the note is gone.
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  await page.goto(all.server.url)
  const row = rowOf(page, id)
  await row.getByRole('button', { name: /^Approve… entities_delete/ }).click()
  const dialog = page.getByRole('dialog', { name: 'note-cleaner wants to call entities_delete' })
  await dialog.getByText('Deletes Note/old and its relationships.').waitFor()
  expect(await all.server.api('GET', `/api/approvals/${id}`)).toMatchObject({ status: 'pending' })
  await dialog.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText('The call was approved.').waitFor()
  await dialog.waitFor({ state: 'detached' })
  await row.waitFor({ state: 'detached' })
  expect(new URL(page.url()).pathname).toBe('/')
  expect(await all.server.api('GET', `/api/approvals/${id}`)).toMatchObject({ status: 'decided', decision: { decision: 'approve' } })
  await untilStatus(all.server, runId, 'completed')
  await expect(all.server.api('GET', '/api/graph/objects/Note%2Fold')).rejects.toThrow('404')
  // The requests of the other tests are about this note as well.
  await all.server.api('PUT', '/api/graph/objects/upsert', { type: 'Note', key: 'old', properties: { title: 'Old' } })
  misbehaviour.check()
  await context.close()
})

it('says why a run failed, in words and as its reason', async () => {
  const { errorMessage, reason } = await all.server.api<{ errorMessage: string; reason: string }>('GET', `/api/admin/runs/${seeded.failed[0]}`)
  expect([errorMessage.length > 10, reason]).toEqual([true, 'provider'])
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  const failures = page.getByRole('region', { name: 'Latest failures' })
  for (const [index, run] of seeded.failed.entries()) {
    const row = failures.getByRole('listitem').filter({ has: page.locator(`a[href="/runs/${run}"]`) })
    // Names in it are shown as code, without backticks.
    await row.getByText(errorMessage.replaceAll('`', '')).waitFor()
    await row.getByText(`Read invoice ${4711 + index}`).waitFor()
    await row.getByTitle(reason, { exact: true }).getByText('Failed').waitFor()
    await row.getByText(`· ${reason}`).waitFor()
  }
  misbehaviour.check()
  await context.close()
})

it('leaves the dialog of another request open when the answer to a decision comes late', async () => {
  const [first, second] = [await request('Remove the old note, first.'), await request('Remove the old note, second.')]
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const decision = await held(page, `**/api/approvals/${first}/decide`)
  await page.goto(all.server.url)
  const dialog = page.getByRole('dialog', { name: 'note-cleaner wants to call entities_delete' })
  await rowOf(page, first).getByRole('button', { name: /^Deny…/ }).click()
  await dialog.getByRole('button', { name: 'Deny the call' }).click()
  await decision.arrived
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  await rowOf(page, second).getByRole('button', { name: /^Deny…/ }).click()
  await dialog.getByLabel('Reason').fill('It is still needed.')
  decision.release()
  await page.getByText('The call was denied.').waitFor()
  await rowOf(page, first).waitFor({ state: 'detached' })
  expect(await dialog.getByLabel('Reason').inputValue()).toBe('It is still needed.')
  await dialog.getByRole('button', { name: 'Deny the call' }).click()
  await dialog.waitFor({ state: 'detached' })
  await rowOf(page, second).waitFor({ state: 'detached' })
  misbehaviour.check()
  await context.close()
})

it('says why it does not know what waits, to whoever may not decide', async () => {
  const { token } = await all.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Reader', scopes: ['admin:read', 'agents:read', 'graph:read'] })
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401] } })
  await page.goto(all.server.url)
  await page.getByLabel('Token').fill(token)
  await page.keyboard.press('Enter')
  const tile = page.getByRole('link', { name: /^Needs you/ })
  await tile.getByTitle(/approvals:decide/).waitFor()
  expect(await tile.innerText()).toContain('–')
  misbehaviour.check()
  await context.close()
})

it('shows a run as soon as it starts, without a reload', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?status=completed`)
  await page.getByRole('row').nth(1).waitFor()
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  const run = await trigger(all.server, 'researcher', 'What is new?')
  await untilStatus(all.server, run, 'completed')
  await page.locator(`a[href="/runs/${run}"]`).waitFor()
  misbehaviour.check()
  await context.close()
})

it('keeps the filters in the URL and opens a row with the keyboard', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs`)
  await page.getByRole('row').nth(1).waitFor()
  await page.getByLabel('Status').selectOption('failed')
  await page.waitForURL(/status=failed/)
  await page.getByText('2 shown').waitFor()
  await page.reload()
  await page.getByText('2 shown').waitFor()
  await page.getByRole('heading', { level: 1 }).click()
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  await page.locator('[data-index="1"]:focus').waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/runs/${seeded.failed[0]}`)
  misbehaviour.check()
  await context.close()
})

it('says what a bulk action would do before it does it', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  // Of several statuses only those count to which the action applies.
  await page.goto(`${all.server.url}/runs?agent=release-watcher&status=running,failed`)
  await page.getByText('2 shown').waitFor()
  await page.getByRole('button', { name: /^Cancel/ }).click()
  await page.getByRole('dialog', { name: 'Cancel runs' }).getByText('2 of 2 runs can be cancelled').waitFor()
  await page.keyboard.press('Escape')
  expect(await page.getByRole('button', { name: /^Resume/ }).getAttribute('aria-disabled')).toBe('true')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search or run a command' }).fill('these runs')
  await page.getByRole('option', { name: 'Cancel these runs…' }).waitFor()
  // Whoever looks for an action that is refused is told why.
  expect(await page.getByRole('option', { name: 'Resume these runs…' }).getAttribute('aria-disabled')).toBe('true')
  await page.keyboard.press('Escape')
  await page.goto(`${all.server.url}/runs?agent=release-watcher`)
  await page.getByText('2 shown').waitFor()
  await page.getByRole('button', { name: /^Cancel/ }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel runs' })
  await dialog.getByText('2 of 2 runs can be cancelled').waitFor()
  expect((await untilStatus(all.server, seeded.running[0]!, 'running')).status).toBe('running')
  await dialog.getByRole('button', { name: 'Cancel 2 runs' }).click()
  await page.getByText('2 runs were cancelled.').waitFor()
  await page.getByRole('row').filter({ hasText: 'Cancelled' }).nth(1).waitFor()
  misbehaviour.check()
  await context.close()
})

it('speaks of one run as of one', async () => {
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids: seeded.running })
  for (const one of seeded.running) await untilStatus(all.server, one, 'cancelled')
  const run = await trigger(all.server, 'release-watcher', 'Watch the releases of this evening.')
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?agent=release-watcher&status=queued,running`)
  await page.getByText('1 shown').waitFor()
  await page.getByRole('button', { name: /^Cancel/ }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel runs' })
  await dialog.getByText('1 of 1 run can be cancelled. It stops at once').waitFor()
  await dialog.getByRole('button', { name: 'Cancel 1 run', exact: true }).click()
  await page.getByText('1 run was cancelled.').waitFor()
  expect((await untilStatus(all.server, run, 'cancelled')).status).toBe('cancelled')
  misbehaviour.check()
  await context.close()
})

it('opens pages, runs and actions with the palette', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor()
  await page.keyboard.type('researcher')
  await page.getByRole('option', { name: /researcher/ }).first().waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor({ state: 'detached' })
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor()
  await page.keyboard.type('budg')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Budgets' }).waitFor()
  expect(await page.evaluate(() => document.activeElement?.tagName)).toBe('H1')
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('starts work from every page with the palette', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/budgets`)
  await page.getByRole('heading', { level: 1, name: 'Budgets' }).waitFor()
  const field = page.getByRole('combobox', { name: 'Search or run a command' })
  const choose = async (label: string) => {
    await page.keyboard.press('Control+k')
    await field.fill(label.slice(0, -1))
    await page.getByRole('option', { name: label, exact: true }).click()
    await field.waitFor({ state: 'detached' })
  }
  for (const [label, title, path] of [
    ['Dispatch a workflow…', 'Dispatch a workflow', '/workflows'],
    ['Create an agent…', 'Create an agent', '/agents'],
    ['Create an object…', 'New object', '/graph'],
    ['Install a product…', 'Install a product', '/products'],
  ] as const) {
    await choose(label)
    const dialog = page.getByRole('dialog', { name: title })
    await dialog.waitFor()
    expect(new URL(page.url()).pathname).toBe(path)
    // The address holds the dialog, so a reload shows it again.
    await page.reload()
    await dialog.waitFor()
    // Some dialogs have a second one below their content.
    await dialog.getByRole('button', { name: 'Close' }).first().click()
    await dialog.waitFor({ state: 'detached' })
    expect(new URL(page.url()).search).toBe('')
  }
  // The dialog of the browser opens; the area of the page remains if nothing is chosen there.
  await Promise.all([page.waitForEvent('filechooser'), choose('Upload a document…')])
  await page.getByRole('heading', { level: 1, name: 'Documents' }).waitFor()
  await expect.poll(() => new URL(page.url()).search).toBe('')
  await choose('Start a conversation')
  await page.getByRole('heading', { level: 1, name: 'Chat' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('says in every list what a run was asked, and names an object without a title by its type', async () => {
  const asked = 'Do we know anything about tagging?'
  const object = await all.server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Reading', properties: { celsius: 21, place: 'Blue cellar' } })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?agent=researcher&status=completed`)
  const row = page.getByRole('row').filter({ hasText: asked }).first()
  await row.getByText('Nothing is known about tagging yet.', { exact: true }).waitFor()
  await page.goto(`${all.server.url}/agents/researcher?tab=runs`)
  await page.getByRole('columnheader', { name: 'Asked' }).waitFor()
  await page.getByRole('cell', { name: asked }).first().waitFor()
  await page.goto(`${all.server.url}/runs/compare`)
  await page.locator('option').filter({ hasText: asked }).first().waitFor({ state: 'attached' })
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search or run a command' }).fill('anything about tagging')
  await page.getByRole('option', { name: new RegExp(`researcher .*${asked.replace('?', '.')}`) }).first().waitFor()
  await page.getByRole('combobox', { name: 'Search or run a command' }).fill('Blue cellar')
  await page.getByRole('option', { name: /^Reading [0-9a-f]+/ }).waitFor()
  await all.server.api('DELETE', `/api/graph/objects/${object.id}`)
  misbehaviour.check()
  await context.close()
})

it('names a run by the first sentence of what it was asked, without Markdown, and has the rest as its title', async () => {
  const run = await trigger(all.server, 'release-watcher', '## Releases\n\nRead **all** releases of `today`. Then write down which of them break something.')
  await untilStatus(all.server, run, 'running')
  const short = 'Releases Read all releases of today.'
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?agent=release-watcher`)
  const row = page.getByRole('row').filter({ has: page.locator(`a[href="/runs/${run}"]`) })
  await row.getByText(short, { exact: true }).waitFor()
  await row.getByTitle(/which of them break something/).waitFor()
  await page.goto(all.server.url)
  await page.getByRole('region', { name: 'Running now' }).getByText(short, { exact: true }).waitFor()
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids: [run] })
  misbehaviour.check()
  await context.close()
})

it('says what a waiting run was asked, and leads from a tile to all runs in progress', async () => {
  const run = await trigger(all.server, 'note-cleaner', 'Remove the old note for good.')
  await untilStatus(all.server, run, 'waiting')
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?status=waiting`)
  await page.getByRole('row').filter({ hasText: 'Remove the old note for good.' }).waitFor()
  await page.goto(all.server.url)
  await page.getByRole('link', { name: /^In progress/ }).click()
  await page.waitForURL(/status=queued(,|%2C)running/)
  await expect.poll(() => page.getByLabel('Status', { exact: true }).inputValue()).toBe('queued,running')
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids: [run] })
  misbehaviour.check()
  await context.close()
})

it('counts what is in progress and what waits alike in the tiles and in the chart', async () => {
  const runs = [await trigger(all.server, 'release-watcher', 'Watch the releases of this week.'), await trigger(all.server, 'note-cleaner', 'Remove the old note of this week.')]
  await untilStatus(all.server, runs[0]!, 'running')
  await untilStatus(all.server, runs[1]!, 'waiting')
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  const chart = page.getByRole('region', { name: 'Runs created in the last 24 hours' })
  const number = (text: string) => Number(/\d+/.exec(text)?.[0])
  for (const label of ['In progress', 'Waiting']) {
    const tile = page.getByRole('link', { name: new RegExp(`^${label}`) })
    const series = chart.getByRole('listitem').filter({ hasText: label })
    // No run of this server is older than a day.
    await expect.poll(async () => number(await tile.innerText()) > 0 && number(await tile.innerText()) === number(await series.innerText()), { timeout: 30_000 }).toBe(true)
  }
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids: runs })
  misbehaviour.check()
  await context.close()
})

it('marks runs that a script answered, in the list and on their page', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?agent=researcher&status=completed`)
  const row = page.getByRole('row').filter({ hasText: 'Nothing is known about tagging yet.' }).first()
  await row.getByText('Rehearsal', { exact: true }).waitFor()
  await row.getByRole('link').click()
  await page.getByRole('heading', { level: 1 }).getByTitle('A script answered instead of a model').waitFor()
  misbehaviour.check()
  await context.close()
})

it('says in a narrow window why a run failed, over the whole width', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size: 'narrow' })
  await page.goto(all.server.url)
  const row = page.getByRole('listitem').filter({ has: page.locator(`a[href="/runs/${seeded.failed[0]}"]`) })
  await row.getByText('Failed').first().waitFor()
  const [whole, note] = await Promise.all([row.boundingBox(), row.locator('p').last().boundingBox()])
  expect(note!.width).toBeGreaterThan(whole!.width * 0.85)
  misbehaviour.check()
  await context.close()
})

it('counts the time of what is at work each second', async () => {
  const run = await trigger(all.server, 'release-watcher', 'Watch the releases of this hour.')
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${run}`)
  const took = page.locator('main [title^="since "]').first()
  await took.waitFor()
  const seen = new Set<string>()
  for (const end = Date.now() + 4_200; Date.now() < end; await page.waitForTimeout(200)) seen.add(await took.innerText())
  expect(seen.size).toBeGreaterThan(2)
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids: [run] })
  misbehaviour.check()
  await context.close()
})

it('shows in a narrow window whose run it is, what it was asked and when', async () => {
  const run = await trigger(all.server, 'release-watcher', 'Watch the releases of next week.')
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size: 'narrow' })
  await page.goto(`${all.server.url}/runs?agent=release-watcher`)
  const row = page.getByRole('row').filter({ has: page.locator(`a[href="/runs/${run}"]`) })
  await row.getByText('Watch the releases of next week.', { exact: true }).waitFor()
  // The name is not cut off, and what is below it fits into the row.
  expect(await row.getByRole('link').evaluate((link) => {
    const cell = link.closest('[role=cell]')!
    return cell.scrollWidth > cell.clientWidth || cell.scrollHeight > cell.closest('[role=row]')!.clientHeight
  })).toBe(false)
  expect(await row.locator('time').isVisible()).toBe(true)
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids: [run] })
  misbehaviour.check()
  await context.close()
})

it('says what was spent today, with and without a limit', async () => {
  const budgets = '/api/coordination/budgets'
  const { project } = await all.server.api<{ project: { limit: { usd?: number | null; tokens?: number | null } } }>('GET', budgets)
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const card = page.getByRole('region', { name: 'Spend today' })
  await all.server.api('PUT', budgets, { usd: 100 })
  await page.goto(all.server.url)
  await card.getByText(/ spent.* of \$100\.00$/).waitFor()
  await all.server.api('PUT', budgets, {})
  await page.reload()
  await card.getByText(/ spent, no limit set$/).waitFor()
  // An event of a run does not read all runs of the day again. The first event of the stream reads everything once.
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  const isShown = async (input: string) => {
    const run = await trigger(all.server, 'release-watcher', input)
    await page.locator(`a[href="/runs/${run}"]`).first().waitFor()
    return run
  }
  const ids = [await isShown('Watch what is spent.')]
  let reads = 0
  page.on('request', (request) => (reads += Number(/\/api\/admin\/runs\?.*since=20/.test(request.url()))))
  ids.push(await isShown('Watch what is spent again.'))
  expect(reads).toBe(0)
  await all.server.api('POST', '/api/admin/runs/bulk', { action: 'cancel', ids })
  await card.getByRole('link', { name: 'Budgets' }).click()
  await page.getByRole('heading', { level: 1, name: 'Budgets' }).waitFor()
  await all.server.api('PUT', budgets, project.limit)
  misbehaviour.check()
  await context.close()
})
