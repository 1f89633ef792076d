// 10,000 runs with at most 60 rows in the document (1,500 unless EMERGENT_TEST_SPEED=1: to make them takes a debug build
// of the program minutes), and scrolling through them without a frame that takes long.
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, trigger, writeScripts } from './seed'
import { between, isStrict, told, watchThread } from './speed'

vi.setConfig({ testTimeout: 400_000, hookTimeout: 600_000 })

const RUNS = isStrict ? 10_000 : 1500
const MOST_ROWS = 60

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll({ sample: false })
  writeScripts(all.server, { invoice: 'rules:\n  - when: {}\n    answer: { text: The invoice is in order and can be paid. }\n' })
  await all.server.api('POST', '/api/admin/agents', { name: 'invoice-reader', description: 'Reads invoices.', model: rehearsal('invoice') })
  let next = 0
  const work = async () => {
    while (next < RUNS) await trigger(all.server, 'invoice-reader', `Read invoice ${++next}`)
  }
  await Promise.all(Array.from({ length: 16 }, work))
})
afterAll(() => all?.stop())

it(`lists ${RUNS} runs with at most ${MOST_ROWS} rows in the document`, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const thread = await watchThread(page)
  await page.goto(`${all.server.url}/runs`)
  await page.locator('[data-row]').first().waitFor()
  // Goes to the end, again and again, until all are read. The most rows that ever were in the document count.
  const most = await page.evaluate(async (runs) => {
    const table = document.querySelector<HTMLElement>('[role=table]')!
    const scroller = table.parentElement!
    let found = 0
    const observer = new MutationObserver(() => (found = Math.max(found, document.querySelectorAll('[data-row]').length)))
    observer.observe(table, { childList: true, subtree: true })
    while (table.getAttribute('aria-rowcount') !== String(runs + 1)) {
      scroller.scrollTop = scroller.scrollHeight
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    observer.disconnect()
    return found
  }, RUNS)
  expect(most).toBeLessThanOrEqual(MOST_ROWS)
  await page.getByText(`${RUNS.toLocaleString('en')} shown`).waitFor()

  // Through the whole list in steps of some rows, one for each frame.
  const STEPS = 120
  const before = await thread.spent()
  await page.evaluate(async (steps) => {
    const scroller = document.querySelector<HTMLElement>('[role=table]')!.parentElement!
    for (let step = 0; step <= steps; step++) {
      scroller.scrollTop = (scroller.scrollHeight / steps) * (steps - step)
      await new Promise(requestAnimationFrame)
    }
  }, STEPS)
  const frame = between(before, await thread.spent(), STEPS)

  // News with all of them in memory.
  const start = await thread.spent()
  const run = await trigger(all.server, 'invoice-reader', 'Read the newest invoice')
  await page.locator(`a[href="/runs/${run}"]`).waitFor()
  await page.getByRole('row').nth(1).filter({ hasText: 'Completed' }).waitFor()
  const news = between(start, await thread.spent())
  console.log(`${RUNS} runs: at most ${most} rows in the document; a frame that shows other rows took ${told(frame)}; a new run took ${told(news)}`)
  // Each of these frames draws every row anew.
  expect(frame.all).toBeLessThan(50)
  expect(news.all).toBeLessThan(500)
  misbehaviour.check()
  await context.close()
})
