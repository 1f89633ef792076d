// What is in lists and tables is read in every window: no word there is broken in its middle, and no short text is cut.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { openScreen, type Screens, seedScreens } from './seed-screens'
import { outage, untilWorkflow } from './workflow-seed'

let all: Awaited<ReturnType<typeof startAll>>
let screens: Screens

beforeAll(async () => {
  all = await startAll()
  const { server } = all
  screens = await seedScreens(server)
  await server.api('POST', '/api/projects', { name: 'northern-warehouses' })
  await server.api('PUT', '/api/admin/secrets/TICKETS_API_TOKEN', { value: 'a-token-of-the-ticket-system' })
  await server.api('POST', '/api/tokens', { name: 'Nightly maintenance', scopes: ['graph:read', 'graph:write', 'agents:read', 'agents:invoke', 'chat:use'] })
  await server.api('POST', '/api/admin/agents', { name: 'correspondence-translator', description: 'Translates the correspondence with customers.', tools: ['search_hybrid'] })
  await server.api('PUT', '/api/coordination/budgets', { agent: 'correspondence-translator', usd: 12.5, tokens: 1_250_000 })
  await untilWorkflow(server, await outage(server), 'escalated')
})
afterAll(() => all?.stop())

/**
 * Words of a length that fits a column, which stand on two lines. A part of a name ends at a sign such as `_` or `-`. A
 * text that is cut to its lines, and the digits of an id, are no words.
 */
const brokenWords = () =>
  [...document.querySelectorAll('main :is(td, th, li, dt, dd, [role=cell])')].flatMap((cell) => {
    const found: string[] = []
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      if (node.parentElement!.closest('.truncate, [class*=line-clamp]')) continue
      for (const word of node.textContent!.matchAll(/(?<![\p{L}\p{N}])\p{L}{2,16}(?![\p{L}\p{N}])/gu)) {
        const range = document.createRange()
        range.setStart(node, word.index)
        range.setEnd(node, word.index + word[0].length)
        const lines = new Set([...range.getClientRects()].filter((box) => box.width > 1).map((box) => Math.round(box.top)))
        if (lines.size > 1) found.push(`${word[0]} in “${node.textContent}”`)
      }
    }
    return found
  })

it('breaks no word of a list or a table in a narrow window', { timeout: 240_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size: 'narrow' })
  const broken: string[] = []
  for (const path of screens.paths.values()) {
    await openScreen(page, all.server.url + path)
    for (const word of new Set(await page.evaluate(brokenWords))) broken.push(`${path}: ${word}`)
  }
  expect(broken).toEqual([])
  misbehaviour.check()
  await context.close()
})

/** Statuses, and other texts of this length, that end with dots because their column is too narrow. */
const SHORT = 16
const cutTexts = (short: number) =>
  [...document.querySelectorAll<HTMLElement>('main .truncate, main [role=cell], main [role=columnheader]')]
    .filter((one) => one.scrollWidth > one.clientWidth && getComputedStyle(one).textOverflow === 'ellipsis')
    .map((one) => one.textContent ?? '')
    .filter((text) => text.length <= short)

it('cuts no status and no other short text of a list', { timeout: 240_000 }, async () => {
  const cut: string[] = []
  for (const size of ['wide', 'narrow'] as const) {
    const { page, context, misbehaviour } = await visit(all.browser, all.server, { size })
    for (const path of screens.paths.values()) {
      await openScreen(page, all.server.url + path)
      for (const text of new Set(await page.evaluate(cutTexts, SHORT))) cut.push(`${path}, ${size}: ${text}`)
    }
    misbehaviour.check()
    await context.close()
  }
  expect(cut).toEqual([])
})
