// Changing many runs at once, and what is selected for it.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'

type Detail = { id: string; status: string; resumedAs?: string }
const READER = `
rules:
  - when: { turn: 1 }
    answer: { text: I search., calls: [{ tool: search_hybrid, input: { query: tea, limit: 5 } }] }
  - when: {}
    answer: { text: Nothing is known about tea. }
`

let all: Awaited<ReturnType<typeof startAll>>
let paused: string[]
let completed: string
beforeAll(async () => {
  all = await startAll({ sample: false })
  writeScripts(all.server, { reader: READER })
  await all.server.api('POST', '/api/admin/agents', { name: 'reader', tools: ['search_hybrid'], model: rehearsal('reader') })
  completed = await trigger(all.server, 'reader', 'What is known about tea?')
  paused = [await trigger(all.server, 'reader', 'Which teas are green?', { maxSteps: 1 }), await trigger(all.server, 'reader', 'Which teas are black?', { maxSteps: 1 })]
  await untilStatus(all.server, completed, 'completed')
  for (const run of paused) await untilStatus(all.server, run, 'paused')
})
afterAll(() => all?.stop())

it('selects nothing that a changed filter does not show', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs`)
  await page.getByRole('row').filter({ hasText: 'What is known about tea?' }).getByRole('checkbox').check()
  await page.getByRole('button', { name: 'Cancel 1…' }).waitFor()
  await page.getByLabel('Status', { exact: true }).selectOption('paused')
  await page.getByRole('button', { name: 'Cancel all that match…' }).waitFor()
  await page.getByText('2 shown').waitFor()
  expect(await page.getByRole('checkbox', { checked: true }).count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('compares the two runs that are selected, and no other number of them', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs`)
  expect(await page.getByRole('button', { name: 'Compare' }).getAttribute('aria-description')).toBe('Select two runs first.')
  const compare = page.getByRole('link', { name: 'Compare' })
  const check = (asked: string) => page.getByRole('row').filter({ hasText: asked }).getByRole('checkbox').check()
  await check('What is known about tea?')
  await page.getByRole('button', { name: 'Cancel 1…' }).waitFor()
  expect(await compare.count()).toBe(0)
  await check('Which teas are green?')
  await compare.click()
  await page.waitForURL(`**/runs/compare?left=${completed}&right=${paused[0]}`)
  await page.getByRole('rowheader', { name: 'Status' }).waitFor()
  await page.goBack()
  for (const asked of ['What is known about tea?', 'Which teas are green?', 'Which teas are black?']) await check(asked)
  await page.getByRole('button', { name: 'Cancel 3…' }).waitFor()
  expect(await compare.count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('says which of the selected runs can be resumed, and resumes them', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs`)
  for (const asked of ['What is known about tea?', 'Which teas are green?', 'Which teas are black?']) await page.getByRole('row').filter({ hasText: asked }).getByRole('checkbox').check()
  await page.getByRole('button', { name: 'Resume 3…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Resume runs' })
  await dialog.getByText('2 of 3 runs can be resumed').waitFor()
  await dialog.getByRole('listitem').filter({ hasText: 'reader' }).waitFor()
  expect((await all.server.api<Detail>('GET', `/api/admin/runs/${paused[0]}`)).resumedAs).toBeFalsy()
  await dialog.getByRole('button', { name: 'Resume 2 runs' }).click()
  await page.getByText('2 runs were resumed.').waitFor()
  await page.getByRole('button', { name: 'Resume…', exact: true }).waitFor()
  for (const run of paused) {
    const { resumedAs } = await all.server.api<Detail>('GET', `/api/admin/runs/${run}`)
    await untilStatus(all.server, resumedAs!, 'completed', 'paused')
    await page.locator(`a[href="/runs/${resumedAs}"]`).waitFor()
  }
  expect((await all.server.api<Detail>('GET', `/api/admin/runs/${completed}`)).resumedAs).toBeFalsy()
  misbehaviour.check()
  await context.close()
})
