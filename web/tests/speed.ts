// Measures what the main thread of a page does. Its times are those of the thread, so that other work on the machine
// does not count; `EMERGENT_TEST_SPEED=1`, for a quiet machine, makes tests judge times on the clock strictly as well.
import type { CDPSession, Page } from 'playwright-core'

export const isStrict = process.env.EMERGENT_TEST_SPEED === '1'

export type Spent = { all: number; script: number; style: number; layout: number }

/** Starts to measure a page. The function it returns gives the milliseconds that the main thread has worked so far. */
export async function watchThread(page: Page): Promise<{ cdp: CDPSession; spent: () => Promise<Spent> }> {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
  const spent = async () => {
    const { metrics } = await cdp.send('Performance.getMetrics')
    const of = (wanted: string) => (metrics.find(({ name }) => name === wanted)?.value ?? 0) * 1000
    return { all: of('TaskDuration'), script: of('ScriptDuration'), style: of('RecalcStyleDuration'), layout: of('LayoutDuration') }
  }
  return { cdp, spent }
}

export const between = (before: Spent, after: Spent, count = 1): Spent => ({
  all: (after.all - before.all) / count,
  script: (after.script - before.script) / count,
  style: (after.style - before.style) / count,
  layout: (after.layout - before.layout) / count,
})

export const told = ({ all, script, style, layout }: Spent) => `${all.toFixed(1)} ms of main thread (script ${script.toFixed(1)}, style ${style.toFixed(1)}, layout ${layout.toFixed(1)})`

/** The best of several rounds: other work on the machine only makes a round slower. */
export async function best<T>(rounds: number, by: (result: T) => number, measure: () => Promise<T>): Promise<T> {
  const results: T[] = []
  for (let round = 0; round < rounds; round++) results.push(await measure())
  return results.toSorted((one, other) => by(one) - by(other))[0]!
}

/** Waits until what was changed is painted. */
export const painted = (page: Page) => page.evaluate(() => new Promise<void>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve()))))
