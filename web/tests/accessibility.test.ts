// Asks axe about every route, in both themes and at both widths, with work to show on each of them.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { COLOUR_RULES, expectAccessible, startAll, visit, WIDTHS } from './harness'
import { openScreen, type Screens, seedScreens } from './seed-screens'

let all: Awaited<ReturnType<typeof startAll>>
let screens: Screens

beforeAll(async () => {
  all = await startAll()
  screens = await seedScreens(all.server)
})
afterAll(() => all?.stop())

it.for(['wide', 'narrow'] as const)('finds no violation on any route in a %s window, light or dark', { timeout: 480_000 }, async (size) => {
  const { width } = WIDTHS[size]
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size })
  const violations: string[] = []
  for (const path of screens.paths.values()) {
    await page.emulateMedia({ colorScheme: 'light' })
    await openScreen(page, all.server.url + path)
    for (const theme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: theme })
      await page.locator(`html[data-theme=${theme}]`).waitFor({ state: 'attached' })
      // Nothing but the colours differs between the themes.
      await expectAccessible(page, `${path}, ${theme}, ${width} px`, theme === 'dark' ? COLOUR_RULES : undefined).catch((error: Error) => violations.push(error.message))
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    if (overflow > 0) violations.push(`${path} at ${width} px is ${overflow} px too wide`)
  }
  expect(violations.join('\n')).toBe('')
  misbehaviour.check()
  await context.close()
})
