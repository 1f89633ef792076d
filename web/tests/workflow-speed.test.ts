// A workflow of 1,000 tasks: laid out in 50 ms, painted in 300 ms, at most 8 ms of main thread for each frame while the
// picture is moved, also while the workflow goes on.
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, writeScripts } from './seed'
import { best, between, isStrict, painted, told, watchThread } from './speed'
import { dispatch, workflowOf } from './workflow-seed'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

const TASKS = Array.from({ length: 1000 }, (_, at) => ({
  key: `t${at}`,
  title: `Check chapter ${at + 1} of the handbook`,
  assignedAgent: 'editor',
  blockedBy: at === 0 ? [] : [...new Set([`t${Math.max(0, at - 1 - ((at * 7) % 40))}`, `t${Math.max(0, at - 1 - ((at * 13) % 60))}`])],
}))

let all: Awaited<ReturnType<typeof startAll>>
let still: string
beforeAll(async () => {
  all = await startAll({ sample: false })
  const answer = (milliseconds: number) => `rules:\n  - when: {}\n    delay_ms: ${milliseconds}\n    answer: { text: The chapter is in order. }\n`
  writeScripts(all.server, { asleep: answer(600_000), brisk: answer(300) })
  await all.server.api('POST', '/api/admin/agents', { name: 'editor', description: 'Edits texts for clarity and tone.', systemPrompt: 'You edit texts.', model: rehearsal('brisk') })
  still = await dispatch(all.server, { tasks: TASKS, model: rehearsal('asleep') })
})
afterAll(() => all?.stop())
// A test that is tried again measures one workflow at work, and not also that of the attempt before it.
const atWork = new Set<string>()
afterEach(async () => {
  for (const id of atWork) await end(id)
})

/** Cancels a workflow, unless it has ended. */
async function end(id: string) {
  atWork.delete(id)
  const { status } = await workflowOf(all.server, id)
  if (!['completed', 'cancelled', 'failed'].includes(status)) await all.server.api('POST', `/api/coordination/workflows/${id}/cancel`)
}

const FRAMES = 90

/** Drags the picture to and fro, one move for each frame, and returns what a frame took. */
async function pan(page: Page, { cdp, spent }: Awaited<ReturnType<typeof watchThread>>) {
  await cdp.send('HeapProfiler.collectGarbage')
  const before = await spent()
  const gaps = await page.evaluate(async (frames) => {
    const svg = document.querySelector('[role=listbox]')!
    const box = svg.getBoundingClientRect()
    const move = (type: string, x: number, y: number) => svg.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, pointerId: 1, bubbles: true }))
    // There is no real pointer to capture.
    svg.setPointerCapture = () => {}
    const [x, y] = [box.x + box.width / 2, box.y + 20]
    move('pointerdown', x, y)
    const times: number[] = []
    for (let at = 0; at < frames; at++) {
      const way = Math.sin((at / frames) * Math.PI * 2)
      move('pointermove', x - 10 - way * 700, y - way * 400)
      times.push(await new Promise<number>(requestAnimationFrame))
    }
    move('pointerup', x, y)
    return times.slice(1).map((time, index) => time - times[index]!)
  }, FRAMES)
  return { ...between(before, await spent(), FRAMES), longest: Math.max(...gaps) }
}

it('opens, paints and moves 1,000 tasks within its budgets', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const thread = await watchThread(page)

  // From a click in the list of workflows to the picture. The answer of the server is waited for, which takes no time of the thread.
  const laidOut: number[] = []
  const opened = await best(3, ({ all: total }) => total, async () => {
    await page.goto(`${all.server.url}/workflows`)
    const link = page.locator(`a[href="/workflows/${still}"]`)
    await link.hover()
    await page.waitForTimeout(1500)
    const before = await thread.spent()
    await link.click()
    await page.locator('[data-task]').nth(10).waitFor({ state: 'attached' })
    await painted(page)
    const spent = between(before, await thread.spent())
    laidOut.push(...(await page.evaluate(() => performance.getEntriesByName('layout of tasks').map(({ duration }) => duration))))
    return spent
  })
  await page.waitForTimeout(2000)

  const shown = await best(5, ({ clock }) => clock, async () => {
    await page.getByRole('button', { name: 'List', exact: true }).click()
    await page.getByRole('list', { name: 'Tasks' }).waitFor()
    await page.waitForTimeout(500)
    const before = await thread.spent()
    const clock = await page.evaluate(async () => {
      const start = performance.now()
      ;[...document.querySelectorAll('button')].find(({ textContent }) => textContent?.trim() === 'Picture')!.click()
      while (!document.querySelector('[data-task]')) await new Promise(requestAnimationFrame)
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
      return performance.now() - start
    })
    return { ...between(before, await thread.spent()), clock }
  })
  console.log(`1,000 tasks: opened with ${told(opened)}; laid out in ${laidOut.map((time) => time.toFixed(1)).join(', ')} ms; the picture painted in ${shown.clock.toFixed(0)} ms, ${told(shown)}`)
  // Times on the clock count other work on the machine as well; the unit test of the layout has the same budget.
  expect(Math.min(...laidOut)).toBeLessThan(isStrict ? 50 : 500)
  expect(opened.all).toBeLessThan(300)
  expect(shown.all).toBeLessThan(300)
  expect(shown.clock).toBeLessThan(isStrict ? 300 : 2000)

  const near = await best(3, (round) => round.all, () => pan(page, thread))
  await page.getByRole('button', { name: 'Show everything' }).click()
  await page.locator('[data-boxes]').first().waitFor()
  const far = await best(3, (round) => round.all, () => pan(page, thread))
  console.log(`1,000 tasks: a frame of a move took ${told(near)}, of all of them from far away ${told(far)}`)
  expect(near.all).toBeLessThan(8)
  expect(far.all).toBeLessThan(8)
  expect(await page.locator('[data-task]').count()).toBeLessThan(10)

  // From far away a click still selects what is under it, and the selected task has its words.
  const box = (await page.locator('[data-boxes]').first().boundingBox())!
  await page.mouse.click(box.x + box.width / 2, box.y + 2)
  await page.waitForURL(/task=t/)
  misbehaviour.check()
  await context.close()
})

it('moves 1,000 tasks within 8 ms for each frame while they are worked on', async () => {
  await end(still)
  const id = await dispatch(all.server, { tasks: TASKS, maxConcurrent: 8, model: rehearsal('brisk') })
  atWork.add(id)
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/workflows/${id}`)
  await page.locator('[data-status=completed]').first().waitFor()
  const thread = await watchThread(page)
  const seq = async () => (await all.server.api<{ eventSeq: number }>('GET', `/api/coordination/workflows/${id}`)).eventSeq
  const before = await seq()
  const live = await best(4, (round) => round.all, () => pan(page, thread))
  const events = (await seq()) - before
  console.log(`1,000 tasks at work: a frame of a move took ${told(live)}, ${events} events in four rounds of ${FRAMES} frames`)
  expect(events).toBeGreaterThan(10)
  // On a busy machine there are few frames, and each has the news of a longer time.
  expect(live.all).toBeLessThan(isStrict ? 8 : 40)
  expect(await page.locator('[data-task]').count()).toBeLessThan(300)
  misbehaviour.check()
  await context.close()
})
