// A run of 20,000 events opens within 1 s: its first entries are there, the rest follows. Other work on the machine only
// makes it slower, so the best of some rounds counts. Unless EMERGENT_TEST_SPEED=1, which is for a release build on a
// quiet machine, the clock is judged loosely; the work of the main thread is judged everywhere.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, trigger, writeScripts } from './seed'
import { isStrict, watchThread } from './speed'

const STEPS = 100
const CALLS = 100

let all: Awaited<ReturnType<typeof startAll>>
let small: string
let large: string
beforeAll(async () => {
  all = await startAll({ sample: false })
  const key = (step: number, call: number) => `part-${step}-${call}`
  const rules: object[] = []
  for (let step = 1; step <= STEPS; step++) {
    const calls = Array.from({ length: CALLS }, (_, call) => ({ tool: 'entities_get', input: { id: `Part/${key(step, call)}` } }))
    rules.push({ when: { agent: 'stock-taker', step }, answer: { text: `I count shelf ${step}.`, calls } })
    await all.server.api('POST', '/api/graph/objects/bulk', { objects: calls.map((_, call) => ({ type: 'Part', key: key(step, call), properties: { name: `Bearing ${step}-${call}`, stock: step * call } })) })
  }
  rules.push({ when: {}, answer: { text: 'Everything is counted.' } })
  writeScripts(all.server, { stock: JSON.stringify({ rules }) })
  for (const name of ['stock-taker', 'stock-clerk']) await all.server.api('POST', '/api/admin/agents', { name, description: 'Counts parts.', tools: ['entities_get'], model: rehearsal('stock') })
  small = await trigger(all.server, 'stock-clerk', 'Count.')
  large = await trigger(all.server, 'stock-taker', 'Count every part.', { timeoutSeconds: 900 })
  for (;;) {
    const { status } = await all.server.api<{ status: string }>('GET', `/api/admin/runs/${large}`)
    if (status === 'completed') break
    if (status !== 'queued' && status !== 'running') throw new Error(`the run is ${status}`)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}, 500_000)
afterAll(() => all?.stop())

it('opens a run of 20,000 events at once, with few elements in the document', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(120_000)
  const { spent } = await watchThread(page)
  const open = async (run: string, text: string) => {
    await page.goto(`${all.server.url}/runs/${run}`)
    await page.getByRole('log').getByText(text).first().waitFor()
    return { clock: await page.evaluate(() => performance.now()), work: (await spent()).all }
  }
  await open(small, 'Everything is counted.')
  const base = await open(small, 'Everything is counted.')
  const rounds = [await open(large, 'I count shelf 1.'), await open(large, 'I count shelf 1.'), await open(large, 'I count shelf 1.')]
  const clock = Math.min(...rounds.map((round) => round.clock))
  const work = Math.min(...rounds.map((round) => round.work))
  await page.getByTitle(/20,\d{3} events/).waitFor()
  const complete = { clock: await page.evaluate(() => performance.now()), work: (await spent()).all }
  console.log(`20,000 events: the first entries after ${rounds.map((round) => Math.round(round.clock)).join(', ')} ms with ${Math.round(work)} ms of main thread (a short run: ${Math.round(base.clock)} ms, ${Math.round(base.work)} ms), all of them after ${Math.round(complete.clock)} ms with ${Math.round(complete.work)} ms of main thread`)
  expect(clock).toBeLessThan(isStrict ? 1000 : 15_000)
  expect(work).toBeLessThan(1000)
  expect(complete.work).toBeLessThan(5000)
  expect(await page.locator('[data-item]').count()).toBeLessThan(60)
  expect(await page.getByRole('option').count()).toBeLessThan(1500)
  await page.getByRole('button', { name: 'To the end' }).click()
  await page.getByText('Ended: completed').waitFor()
  expect(await page.locator('[data-item]').count()).toBeLessThan(60)
  misbehaviour.check()
  await context.close()
}, 400_000)
