import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { rehearsal, writeScripts } from './seed'
import { audit, seedWork, writeLenientAudit } from './seed-work'

let all: Awaited<ReturnType<typeof startAll>>
let runs: [string, string]
beforeAll(async () => {
  all = await startAll()
  await seedWork(all.server)
  writeLenientAudit(all.server)
  const strict = await audit(all.server)
  // The second run finds what the first one found.
  await all.server.api('POST', `/api/admin/agents/contract-auditor/runs/${strict}/revert`, { tree: true })
  runs = [strict, await audit(all.server, { model: rehearsal('lenient') })]
})
afterAll(() => all?.stop())

it('shows two runs side by side in both themes and widths without a violation', () =>
  showEverywhere(all.browser, all.server, 'run-compare', `/runs/compare?left=${runs[0]}&right=${runs[1]}`, async (page) => {
    await page.getByRole('heading', { name: 'Step 3' }).waitFor()
    await page.getByText('Contract/northwind-2026').first().waitFor()
  }), 180_000)

it('says what differs in steps, inputs, changes and cost, and swaps the sides', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${runs[0]}`)
  await page.getByRole('link', { name: 'Compare' }).click()
  await page.getByLabel('Right run').selectOption(runs[1])
  await page.waitForURL((url) => url.searchParams.get('right') === runs[1])
  await page.getByRole('rowheader', { name: 'Model' }).waitFor()
  await page.getByText(/^Left · [\d,]+ tokens · /).first().waitFor()
  const input = page.getByRole('region', { name: 'Differences of the input of entities_update' })
  await input.getByText('"risk": "high"').waitFor()
  await input.getByText('"risk": "medium"').waitFor()
  expect(await page.getByRole('heading', { name: 'Step 2' }).count()).toBe(0)
  await page.getByRole('listitem').filter({ hasText: 'entities_delete' }).getByText('Only left').first().waitFor()
  await page.getByRole('region', { name: 'Differences of Contract/northwind-2026' }).waitFor()
  await page.getByRole('switch').click()
  await page.getByRole('heading', { name: 'Step 2' }).waitFor()
  await page.getByRole('button', { name: 'Swap' }).click()
  await page.waitForURL((url) => url.searchParams.get('left') === runs[1] && url.searchParams.get('all') === 'true')
  await page.getByRole('listitem').filter({ hasText: 'entities_delete' }).getByText('Only right').first().waitFor()
  misbehaviour.check()
  await context.close()
})

it('tells the calls of one tool in one step apart', async () => {
  const script = (a: string, b: string) => `
rules:
  - when: { step: 1 }
    answer: { text: "I read two objects.", calls: [{ tool: entities_get, input: { id: "${a}" } }, { tool: entities_get, input: { id: "${b}" } }] }
  - when: {}
    answer: { text: Done. }
`
  writeScripts(all.server, { 'two-vendors': script('Vendor/northwind', 'Vendor/harbour-freight'), 'two-invoices': script('Invoice/nw-2026-03', 'Invoice/nw-2026-04') })
  const [left, right] = [await audit(all.server, { model: rehearsal('two-vendors') }), await audit(all.server, { model: rehearsal('two-invoices') })]
  await showEverywhere(all.browser, all.server, 'run-compare-calls', `/runs/compare?left=${left}&right=${right}`, async (page) => {
    for (const call of [1, 2]) await page.getByRole('region', { name: `Differences of the input of entities_get, step 1, call ${call}` }).waitFor()
  })
}, 180_000)
