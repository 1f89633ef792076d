import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { seedGraph } from './graph-seed'
import { expectAccessible, held, showEverywhere, startAll, visit } from './harness'

type Found = { id: string; version: number; properties: Record<string, unknown>; deletedAt?: string }

// A busy machine takes its time for four windows and axe in each.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

let all: Awaited<ReturnType<typeof startAll>>
let seeded: Awaited<ReturnType<typeof seedGraph>>
beforeAll(async () => {
  all = await startAll({ sample: false, env: { EMERGENT_EMBEDDINGS: 'builtin' } })
  seeded = await seedGraph(all.server)
  for (;;) {
    const { pending } = await all.server.api<{ pending: number }>('GET', '/api/graph/embeddings')
    if (pending === 0) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
})
afterAll(() => all?.stop())

const get = (name: string) => all.server.api<Found>('GET', `/api/graph/objects/${encodeURIComponent(name)}`)

it('lists the graph everywhere', () =>
  showEverywhere(all.browser, all.server, 'graph', '/graph', (page) => page.getByRole('row').filter({ hasText: 'Payment gateway' }).first().waitFor()))

it('shows a search with its reasons everywhere', () =>
  showEverywhere(all.browser, all.server, 'graph-search', '/graph?q=card+payments', (page) => page.getByText(/Words #1/).waitFor()))

it('shows the past everywhere', () =>
  showEverywhere(all.browser, all.server, 'graph-as-of', `/graph?asOf=${seeded.before}`, async (page) => {
    await page.getByText(/You see the graph as of/).waitFor()
    await page.getByRole('row').nth(1).waitFor()
  }))

it('shows an object everywhere', () =>
  showEverywhere(all.browser, all.server, 'object', `/graph/objects/${seeded.incident}`, async (page) => {
    await page.getByRole('link', { name: 'Payment gateway' }).waitFor()
    await page.getByText('entities_update').waitFor()
  }))

it('shows the history of an object everywhere', () =>
  showEverywhere(all.browser, all.server, 'object-history', `/graph/objects/${seeded.incident}?tab=history`, async (page) => {
    await page.getByText('A certificate of the gateway expired').first().waitFor()
    await page.getByText('entities_update').waitFor()
  }))

it('searches by words, by meaning and by both, and says why', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph`)
  await page.getByRole('searchbox', { name: 'Search the graph' }).fill('certificate')
  await page.getByText(/Words #1/).waitFor()
  await page.getByText(/Meaning #1/).waitFor()
  await page.waitForURL(/q=certificate/)
  await page.getByLabel('Search by').selectOption('text')
  await page.getByText(/Meaning #/).first().waitFor({ state: 'detached' })
  await page.getByLabel('Search by').selectOption('vector')
  await page.getByText(/Words #/).first().waitFor({ state: 'detached' })
  await page.getByText(/Meaning #1/).waitFor()
  await page.getByLabel('Type').selectOption('Vendor')
  await page.waitForURL(/type=Vendor/)
  await page.getByRole('status').filter({ hasText: '1 object' }).waitFor()
  await page.getByRole('link', { name: 'Aurelia Certificates' }).click()
  await page.getByRole('heading', { level: 1, name: /Aurelia Certificates/ }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('follows a name from one object to another, and says over which', async () => {
  const ledger = await all.server.api<Found>('POST', '/api/graph/objects', { type: 'Company', key: 'harbour-ledger', properties: { name: 'Harbour Ledger', text: 'The Harbour Ledger is a shipping register. Its founder was Ottilie Brandt.' } })
  for (const number of [1, 2]) await all.server.api('POST', '/api/graph/objects', { type: 'Company', properties: { name: `Register ${number}`, text: 'A founder of a register of ledgers in a harbour.' } })
  await all.server.api('POST', '/api/graph/objects', { type: 'Letter', properties: { title: 'Early years', text: 'Ottilie Brandt grew up in Tromsø and learned to sail there.' } })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph?q=founder+of+the+Harbour+Ledger`)
  const row = page.getByRole('listitem').filter({ hasText: 'Early years' })
  await page.getByRole('link', { name: 'Harbour Ledger' }).first().waitFor()
  for (const mode of ['linked', 'auto']) {
    await page.getByLabel('Search by').selectOption(mode)
    await page.waitForURL(new RegExp(`mode=${mode}`))
    await row.getByText(/Linked by the name “ottilie brandt”, which Harbour Ledger has too/).waitFor()
  }
  await page.getByLabel('Search by').selectOption('hybrid')
  await page.getByText(/Linked by/).first().waitFor({ state: 'detached' })
  await page.goto(`${all.server.url}/graph?q=founder+of+the+Harbour+Ledger&mode=linked`)
  await row.getByRole('link', { name: 'Harbour Ledger' }).click()
  await page.waitForURL(`**/graph/objects/${ledger.id}*`)
  misbehaviour.check()
  await context.close()
})

it('says which date of a hit matches', async () => {
  for (const day of ['2022-01-03', '2023-05-07']) await all.server.api('POST', '/api/graph/objects', { type: 'Meeting', properties: { name: `Moorings ${day}`, held: day, text: 'The committee of the tides spoke about moorings.' } })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph?q=moorings+in+May+2023`)
  await page.getByRole('listitem').filter({ hasText: 'Moorings 2023-05-07' }).getByText('Its date matches: held').waitFor()
  expect(await page.getByRole('listitem').filter({ hasText: 'Its date matches' }).count()).toBe(1)
  misbehaviour.check()
  await context.close()
})

it('creates an object with the fields of its schema, and shows what the API refuses at the field', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/graph`)
  await page.getByRole('button', { name: 'New object' }).click()
  const dialog = page.getByRole('dialog', { name: 'New object' })
  await dialog.getByLabel('Type').fill('Incident')
  await dialog.getByLabel(/^severity/).selectOption('high')
  await dialog.getByLabel('Key').fill('inc-3001')
  await dialog.getByRole('button', { name: 'Create the object' }).click()
  await dialog.getByText('is required', { exact: false }).waitFor()
  expect(await dialog.getByLabel(/^title/).getAttribute('aria-invalid')).toBe('true')
  await dialog.getByLabel(/^title/).fill('Mails were not sent')
  await dialog.getByLabel(/^minutes/).fill('41')
  await dialog.getByLabel(/^systems/).fill('mail\npush')
  await dialog.getByLabel(/^Further properties/).fill('{ "room": "war-room-3" }')
  await dialog.getByRole('button', { name: 'Create the object' }).click()
  await page.getByRole('heading', { level: 1, name: /Mails were not sent/ }).waitFor()
  expect((await get('Incident/inc-3001')).properties).toEqual({ title: 'Mails were not sent', severity: 'high', minutes: 41, systems: ['mail', 'push'], room: 'war-room-3' })
  await page.goBack()
  await page.getByRole('heading', { level: 1, name: 'Graph' }).waitFor()
  expect(await dialog.count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('imports lines, names wrong ones, and exports', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph`)
  await page.getByRole('button', { name: 'Import…' }).click()
  const dialog = page.getByRole('dialog', { name: /Import/ })
  await dialog.getByLabel('Or lines').fill('{"kind":"object","type":"Vendor","key":"kestrel-mail","properties":{"name":"Kestrel Mail"}}\nnot json')
  await dialog.getByRole('button', { name: 'Import', exact: true }).click()
  await dialog.getByText(/The import stopped at a wrong line/).waitFor()
  await dialog.getByText(/^Line 2:/).waitFor()
  await dialog.getByRole('switch').click()
  await dialog.getByRole('button', { name: 'Import', exact: true }).click()
  await dialog.getByText('The import is complete.').waitFor()
  expect((await get('Vendor/kestrel-mail')).properties.name).toBe('Kestrel Mail')
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()])
  expect(readFileSync((await file.path())!, 'utf8')).toContain('"kestrel-mail"')
  misbehaviour.check()
  await context.close()
})

it('imports the objects and relationships of a file, and changes nothing when it is imported again', async () => {
  const lines = [
    { kind: 'object', type: 'Vendor', key: 'osprey-backup', properties: { name: 'Osprey Backup' } },
    { kind: 'object', type: 'Service', key: 'archive', properties: { name: 'Archive' } },
    { kind: 'relationship', type: 'supplies', from: { type: 'Vendor', key: 'osprey-backup' }, to: { type: 'Service', key: 'archive' } },
  ]
  const file = { name: 'vendors.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(lines.map((line) => JSON.stringify(line)).join('\n')) }
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph`)
  await page.getByRole('button', { name: 'Import…' }).click()
  const dialog = page.getByRole('dialog', { name: /Import/ })
  const start = dialog.getByRole('button', { name: 'Import', exact: true })
  expect(await start.getAttribute('aria-disabled')).toBe('true')
  await dialog.getByLabel('File').setInputFiles(file)
  // One or the other.
  await dialog.getByLabel('Or lines').waitFor({ state: 'detached' })
  await start.click()
  const progress = dialog.getByRole('status')
  await progress.getByText('The import is complete.').waitFor()
  await progress.getByText('2 created, 0 updated, 0 unchanged').waitFor()
  await progress.getByText('1 created, 0 updated, 0 unchanged').waitFor()
  expect((await get('Vendor/osprey-backup')).properties.name).toBe('Osprey Backup')
  const archive = await get('Service/archive')
  expect(await all.server.api('GET', `/api/graph/objects/${archive.id}/edges`)).toMatchObject([{ type: 'supplies', toId: archive.id }])
  await start.click()
  await progress.getByText('0 created, 0 updated, 2 unchanged').waitFor()
  expect((await get('Service/archive')).version).toBe(1)
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  await page.getByRole('link', { name: 'Osprey Backup' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('has the fields of the schema in the form, also when it is opened before the packs are there', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const { id } = await get('Incident/inc-2052')
  const packs = await held(page, '**/api/template-packs?**')
  await page.goto(`${all.server.url}/graph/objects/${id}`)
  await page.getByRole('button', { name: 'Edit' }).click()
  const dialog = page.getByRole('dialog', { name: /^Edit / })
  await dialog.getByRole('status', { name: 'Loading' }).waitFor()
  await packs.arrived
  packs.release()
  expect(await dialog.getByLabel('severity').inputValue()).toBe('medium')
  await page.waitForFunction(() => document.activeElement?.closest('[role=dialog]'))
  await dialog.getByLabel('minutes').fill('42')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect((await get(id)).properties).toMatchObject({ severity: 'medium', minutes: 42 })
  misbehaviour.check()
  await context.close()
})

it('shows both versions when two people edit at once, and writes the chosen one', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [409] } })
  const { id } = await get('Service/notification-hub')
  await page.goto(`${all.server.url}/graph/objects/${id}`)
  await page.getByRole('button', { name: 'Edit' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Status').fill('degraded')
  await all.server.api('PATCH', `/api/graph/objects/${id}`, { properties: { oncall: 'Jonas Berg' } })
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('dialog', { name: /Somebody else wrote version 2/ }).waitFor()
  await page.getByRole('region', { name: 'What they changed' }).getByText('Jonas Berg').waitFor()
  await page.getByRole('button', { name: 'Edit theirs' }).click()
  await dialog.getByLabel('Status').fill('degraded')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Notification hub is now version 3.').waitFor()
  expect(await get(id)).toMatchObject({ version: 3, status: 'degraded', properties: { oncall: 'Jonas Berg' } })
  misbehaviour.check()
  await context.close()
})

it('reverts to a version, deletes and restores', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  const { id } = await get('Incident/inc-2043')
  await all.server.api('PATCH', `/api/graph/objects/${id}`, { properties: { severity: 'high', note: 'raised by mistake' } })
  await page.goto(`${all.server.url}/graph/objects/${id}?tab=history`)
  await page.getByRole('button', { name: 'Version 1' }).click()
  await page.waitForURL(/v=1/)
  await page.getByRole('button', { name: 'Revert to it…' }).click()
  await page.getByRole('button', { name: 'Revert to version 1' }).click()
  await page.getByText('Version 3 says what version 1 said.').waitFor()
  expect((await get(id)).properties).toMatchObject({ severity: 'low' })
  expect((await get(id)).properties.note).toBeUndefined()
  await page.getByRole('tab', { name: /Object/ }).click()
  await page.getByRole('button', { name: 'Delete…' }).click()
  await page.getByRole('button', { name: 'Delete the object' }).click()
  await page.getByRole('button', { name: 'Restore…' }).click()
  await page.getByRole('button', { name: 'Restore the object' }).click()
  await page.getByRole('link', { name: 'Notification hub' }).waitFor()
  expect((await get(id)).deletedAt).toBeUndefined()
  misbehaviour.check()
  await context.close()
})

it('adds, changes, deletes and restores a relationship, and shows its history', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const { id } = await get('Service/search')
  await page.goto(`${all.server.url}/graph/objects/${id}`)
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'Add a relationship' })
  await dialog.getByLabel('Direction').selectOption('in')
  await dialog.getByLabel('Type').fill('owns')
  await dialog.getByRole('searchbox').fill('Lucía')
  await dialog.getByRole('button', { name: /Lucía Ferrari/ }).click()
  await dialog.getByRole('button', { name: 'Add the relationship' }).click()
  await page.getByRole('link', { name: 'Lucía Ferrari' }).waitFor()
  const edges = () => all.server.api<{ id: string; type: string; toId: string; properties: object; weight?: number; version: number }[]>('GET', `/api/graph/objects/${id}/edges`)
  expect(await edges()).toMatchObject([{ type: 'owns', toId: id }])
  const [edge] = await edges()
  await page.getByRole('button', { name: 'Open the relationship with Lucía Ferrari' }).click()
  await page.waitForURL(new RegExp(`relationship=${edge!.id}`))
  const panel = page.getByRole('dialog', { name: /Lucía Ferrari owns/ })
  const save = panel.getByRole('button', { name: 'Save' })
  expect(await save.getAttribute('aria-description')).toBe('Nothing was changed yet.')
  const json = panel.getByLabel('Properties and weight')
  await json.fill('{ "properties": ')
  await panel.getByText('This is not JSON').first().waitFor()
  expect(await save.getAttribute('aria-description')).toBe('Correct the JSON first.')
  await json.fill('{ "since": 2024 }')
  await expect.poll(() => save.getAttribute('aria-description')).toContain('"properties"')
  await json.fill('{ "properties": { "since": 2024 }, "weight": 0.5 }')
  // What is done before the history is there again is not lost.
  let release = () => {}
  const isHeld = new Promise<void>((done) => (release = done))
  await page.route('**/history?*', async (route) => {
    await isHeld
    await route.continue()
  })
  const saving = await held(page, `**/relationships/${edge!.id}*`)
  await save.click()
  await saving.arrived
  // Nor what is typed before the answer, and whoever types keeps the focus.
  await json.fill('{ "properties": { "since": 2025 }, "weight": 0.5 }')
  saving.release()
  await page.getByText('The relationship is now version 2.').waitFor()
  await expect.poll(() => save.getAttribute('aria-description')).toBe(null)
  expect(await json.inputValue()).toContain('2025')
  expect(await json.evaluate((element) => element === document.activeElement)).toBe(true)
  release()
  await panel.getByText('Version 2', { exact: true }).waitFor()
  expect(await json.inputValue()).toContain('2025')
  await json.fill('{"properties":{"since":2024},"weight":0.5}')
  await expect.poll(() => save.getAttribute('aria-description')).toBe('Nothing was changed yet.')
  await page.unroute('**/history?*')
  expect(await edges()).toMatchObject([{ properties: { since: 2024 }, weight: 0.5, version: 2 }])
  const history = panel.getByRole('list', { name: 'History' })
  await history.getByRole('region', { name: 'Changes of version 2' }).getByText('"since": 2024').waitFor()
  await expectAccessible(page, 'a relationship')

  // Nothing is left to discard, and a double click deletes nothing.
  await page.keyboard.press('Escape')
  await panel.waitFor({ state: 'detached' })
  await all.server.api('PATCH', `/api/graph/relationships/${edge!.id}`, { weight: 0.75 })
  await page.getByRole('button', { name: 'Open the relationship with Lucía Ferrari' }).click()
  await expect.poll(() => json.inputValue()).toContain('0.75')
  await panel.getByRole('button', { name: 'Delete…' }).dblclick()
  await panel.getByRole('button', { name: 'Delete…' }).waitFor()
  expect(await edges()).toMatchObject([{ weight: 0.75, version: 3 }])
  await panel.getByRole('button', { name: 'Delete…' }).click()
  await panel.getByRole('button', { name: 'Delete the relationship' }).click()
  await panel.getByText('Version 4, deleted').waitFor()
  expect(await edges()).toEqual([])
  // A link to it shows it as well, with the way back.
  await page.reload()
  await panel.getByRole('button', { name: 'Restore the relationship' }).click()
  await panel.getByText('Version 5', { exact: true }).waitFor()
  expect(await edges()).toMatchObject([{ id: edge!.id, properties: { since: 2024 }, weight: 0.75, version: 5 }])
  await panel.getByRole('button', { name: 'Delete…' }).click()
  await panel.getByRole('button', { name: 'Delete the relationship' }).click()
  await panel.getByText('Version 6, deleted').waitFor()
  await panel.getByRole('button', { name: 'Close' }).click()
  await page.getByText('It has no relationships.').waitFor()
  expect(await edges()).toEqual([])
  misbehaviour.check()
  await context.close()
})

it('follows a fact to its run and call, and shows changes as they happen', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph/objects/${seeded.incident}`)
  await page.getByText('entities_update').waitFor()
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  await all.server.api('PATCH', `/api/graph/objects/${seeded.incident}`, { properties: { minutes: 23 } })
  await page.getByRole('heading', { name: 'Version 3' }).waitFor()
  await page.getByRole('tab', { name: /History/ }).click()
  await page.getByRole('link', { name: /incident-correlator, run/ }).click()
  await page.waitForURL(`**/runs/${seeded.run}*`)
  misbehaviour.check()
  await context.close()
})

it('leads from a version to the call that wrote it, which is open in the run', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph/objects/${seeded.incident}?tab=history`)
  await page.getByRole('link', { name: /› step 1 › entities_update$/ }).click()
  await page.waitForURL((url) => url.pathname === `/runs/${seeded.run}` && url.searchParams.has('item'))
  const id = new URL(page.url()).searchParams.get('item')!
  const { agentId } = await all.server.api<{ agentId: string }>('GET', `/api/admin/runs/${seeded.run}`)
  expect(await all.server.api('GET', `/api/admin/agents/${agentId}/runs/${seeded.run}/tool-calls/${id}`)).toMatchObject({ toolName: 'entities_update', input: { id: 'Incident/inc-2041' } })
  const log = page.getByRole('log', { name: 'Transcript' })
  await log.getByRole('button', { name: /entities_update/, expanded: true }).waitFor()
  await log.getByText(/A certificate of the gateway expired/).first().waitFor()
  misbehaviour.check()
  await context.close()
})

it('lists deleted objects and restores one', async () => {
  const { id } = await all.server.api<Found>('POST', '/api/graph/objects', { type: 'Note', key: 'gone', properties: { title: 'Gone for now' } })
  await all.server.api('DELETE', `/api/graph/objects/${id}`)
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph?type=Note`)
  await page.getByRole('switch', { name: 'Deleted' }).click()
  await page.waitForURL(/deleted=true/)
  const row = page.getByRole('table', { name: 'Deleted objects' }).getByRole('row').filter({ hasText: 'Gone for now' })
  await row.getByRole('button', { name: 'Restore Gone for now' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Restore the object' }).click()
  await page.getByText('Gone for now was restored.').waitFor()
  await row.waitFor({ state: 'detached' })
  // The focus stays in the list, although the button is gone.
  await page.waitForFunction(() => document.activeElement?.closest('[role=group]')?.getAttribute('aria-label') === 'Results')
  expect((await get('Note/gone')).deletedAt).toBeUndefined()
  misbehaviour.check()
  await context.close()
})

it('shows two versions side by side', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/graph/objects/${seeded.incident}?tab=history`)
  await page.getByRole('switch', { name: 'Side by side' }).click()
  const versions = page.getByRole('region', { name: /^Version \d+ and version \d+$/ })
  await versions.getByRole('columnheader').first().waitFor()
  expect(await versions.getByRole('columnheader').allInnerTexts()).toEqual([expect.stringMatching(/^Version \d+$/), expect.stringMatching(/^Version \d+$/)])
  misbehaviour.check()
  await context.close()
})
