import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { REPORT, seedGraph } from './graph-seed'
import { showEverywhere, startAll, visit } from './harness'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

type Listed = { id: string; title: string }
type Run = { id: string; status: string }

const NOTES = [
  { title: 'On-call handbook.md', mimeType: 'text/markdown', content: '# On call\n\nAnswer a page within five minutes. Say in the channel that you have it.\n\n# Handover\n\nWrite down what is open.' },
  { title: 'Contract with Aurelia Certificates.txt', mimeType: 'text/plain', content: 'Aurelia renews the certificates of all public services thirty days before they expire.' },
  { title: 'Review of the second quarter.html', mimeType: 'text/html', content: '<h1>Second quarter</h1><p>Four incidents, one of them severe. The payment team closed all follow-ups.</p>' },
]

let all: Awaited<ReturnType<typeof startAll>>
let report: string

const extractionRuns = (id: string) => all.server.api<Run[]>('GET', `/api/admin/runs?q=${id}`)
async function untilRead(id: string, count = 1) {
  for (let tries = 0; tries < 400; tries++) {
    const runs = await extractionRuns(id)
    if (runs.filter((run) => run.status === 'completed').length >= count) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the document was not read')
}

beforeAll(async () => {
  all = await startAll({ sample: false })
  await seedGraph(all.server)
  for (const note of NOTES) await untilRead((await all.server.api<Listed>('POST', '/api/documents', note)).id)
  report = (await all.server.api<Listed>('POST', '/api/documents', { title: 'Incident report: stale search results.md', mimeType: 'text/markdown', content: REPORT })).id
  await untilRead(report)
})
afterAll(() => all?.stop())

it('lists the documents everywhere', () =>
  showEverywhere(all.browser, all.server, 'documents', '/documents', (page) => page.getByRole('row').filter({ hasText: 'Completed' }).first().waitFor()))

it('shows a document with what was found in each passage everywhere', () =>
  showEverywhere(all.browser, all.server, 'document', `/documents/${report}`, (page) => page.getByRole('link', { name: 'Northwind Hosting' }).waitFor()))

it('uploads several files with their progress, and says what was wrong with one', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/documents`)
  await page.getByLabel('Files to upload').setInputFiles([
    { name: 'Runbook for the gateway.md', mimeType: 'text/markdown', buffer: Buffer.from('# Gateway\n\nRestart one node at a time.') },
    { name: 'broken.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF-1.4 nothing') },
  ])
  const uploads = page.getByRole('region', { name: 'Uploads' })
  await uploads.getByText('Added').waitFor()
  await uploads.getByRole('alert').waitFor()
  // The same file would be refused again.
  expect(await uploads.getByRole('button', { name: /^Upload .* again$/ }).count()).toBe(0)
  await page.getByRole('row').filter({ hasText: 'Runbook for the gateway.md' }).waitFor()
  const listed = await all.server.api<Listed[]>('GET', '/api/documents')
  expect(listed.map((document) => document.title)).toContain('Runbook for the gateway.md')
  // The same bytes again are the same document.
  await page.evaluate(() => {
    const files = new DataTransfer()
    files.items.add(new File(['# Gateway\n\nRestart one node at a time.'], 'Runbook for the gateway.md', { type: 'text/markdown' }))
    document.querySelector('[data-drop]')!.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: files }))
  })
  await uploads.getByText('The same file was there already').waitFor()
  expect(await all.server.api<Listed[]>('GET', '/api/documents')).toHaveLength(listed.length)
  misbehaviour.check()
  await context.close()
})

it('leads from a passage to its object and back, and reads the document again', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/documents/${report}`)
  await page.getByRole('list', { name: 'Found in passage 2' }).getByRole('link', { name: 'Northwind Hosting' }).click()
  await page.getByRole('heading', { level: 1, name: /Northwind Hosting/ }).waitFor()
  await page.getByRole('link', { name: /Incident report/ }).click()
  await page.waitForURL(/chunk=/)
  await page.getByRole('button', { name: 'Read again…' }).click()
  await page.getByRole('button', { name: 'Start report-reader' }).click()
  await page.getByText('report-reader reads the document.').waitFor()
  await untilRead(report, 2)
  await page.getByRole('link', { name: 'report-reader' }).nth(1).waitFor()
  misbehaviour.check()
  await context.close()
})

it('shows a new document as soon as it is there, and deletes one', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  await page.goto(`${all.server.url}/documents`)
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  const { id } = await all.server.api<Listed>('POST', '/api/documents', { title: 'Draft of a policy', content: 'Nobody needs this draft any more.' })
  await page.getByRole('link', { name: 'Draft of a policy' }).click()
  await page.getByRole('button', { name: 'Delete…' }).click()
  await page.getByRole('button', { name: 'Delete the document' }).click()
  await page.getByRole('heading', { level: 1, name: 'Documents' }).waitFor()
  await page.getByRole('link', { name: 'Draft of a policy' }).waitFor({ state: 'detached' })
  expect((await all.server.api<Listed[]>('GET', '/api/documents')).some((document) => document.id === id)).toBe(false)
  misbehaviour.check()
  await context.close()
})

it('does not hide an agent that could not read a document behind another that did', async () => {
  // It has no model, and neither has the server.
  await all.server.api('POST', '/api/admin/agents', { name: 'second-reader', description: 'Reads reports as well.', tools: ['documents_chunks'], trigger: 'on_document_ingested' })
  const { id } = await all.server.api<Listed>('POST', '/api/documents', { title: 'Report for two readers.md', mimeType: 'text/markdown', content: 'The night was loud.' })
  await expect.poll(async () => (await all.server.api<{ entityId?: string }[]>('GET', '/api/admin/triggers/firings?status=refused')).map(({ entityId }) => entityId), { timeout: 30_000 }).toContain(id)
  await untilRead(id)
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/documents`)
  const row = page.getByRole('row').filter({ hasText: 'Report for two readers.md' })
  await row.getByText(/^second-reader could not read it: .*model/).waitFor()
  await row.getByTitle(/^second-reader could not read it: /).waitFor()
  expect(await row.getByText('Completed').count()).toBe(0)
  await all.server.api('DELETE', '/api/admin/agents/second-reader')
  misbehaviour.check()
  await context.close()
})

it('says that an agent was not allowed to read a document, and why', async () => {
  // The only agent that reads new documents has no model, and neither has the server.
  await all.server.api('DELETE', '/api/admin/agents/report-reader')
  await all.server.api('POST', '/api/admin/agents', { name: 'unready-reader', description: 'Reads reports.', tools: ['documents_chunks'], trigger: 'on_document_ingested' })
  const { id } = await all.server.api<Listed>('POST', '/api/documents', { title: 'Report that nobody reads.md', mimeType: 'text/markdown', content: 'The night was quiet.' })
  await expect.poll(async () => (await all.server.api<{ entityId?: string }[]>('GET', '/api/admin/triggers/firings?status=refused')).map(({ entityId }) => entityId), { timeout: 30_000 }).toContain(id)
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/documents`)
  const row = page.getByRole('row').filter({ hasText: 'Report that nobody reads.md' })
  await row.getByText(/^unready-reader could not read it: .*model/).waitFor()
  expect(await row.getByTitle(/model/i).count()).toBe(1)
  await row.getByRole('link').click()
  await page.waitForURL(`**/documents/${id}`)
  const extraction = page.getByRole('region', { name: 'Extraction' })
  await extraction.getByText('Refused').waitFor()
  await extraction.getByText(/^It was not started: .*model/).waitFor()
  await extraction.getByText('unready-reader').waitFor()
  misbehaviour.check()
  await context.close()
})
