// Texts that nobody who built a page has seen: words without an end, and languages that are read from the right.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { say } from './seed-chat'

const WORD = 'Donaudampfschifffahrtsgesellschaftskapitaen'.repeat(6)
const ARABIC = 'مراجعة عقود الموردين في الربع الثالث من السنة المالية الجديدة ومقارنتها بالعقود السابقة وإعداد تقرير مفصل عنها'
const AGENT = `clerk-${'verylongname'.repeat(4)}`
const TABLE = `| ${Array.from({ length: 12 }, (_, index) => `Column-${index}`).join(' | ')} |\n|${'---|'.repeat(12)}\n| ${Array.from({ length: 12 }, () => 'figures-of-the-year').join(' | ')} |`

let all: Awaited<ReturnType<typeof startAll>>
const paths: Record<string, string> = {}
let run = ''

beforeAll(async () => {
  all = await startAll({ sample: false })
  const { server } = all
  writeScripts(server, { table: `\nrules:\n  - when: {}\n    answer: { text: ${JSON.stringify(TABLE)} }\n` })
  const agent = await server.api<{ id: string }>('POST', '/api/admin/agents', { name: AGENT, description: WORD, model: rehearsal('table') })
  await server.api('POST', '/api/admin/agents', { name: 'reader', description: ARABIC, model: rehearsal('table') })
  const object = await server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Contract', key: 'words', properties: { title: ARABIC, [WORD.slice(0, 120)]: WORD, tags: [WORD.slice(0, 90)] }, labels: [WORD.slice(0, 60)] })
  run = await trigger(server, 'reader', ARABIC)
  await untilStatus(server, run, 'completed')
  const conversation = await say(server, { message: `${WORD} ${ARABIC}`, agentDefinitionId: agent.id })
  Object.assign(paths, { agents: '/agents', agent: `/agents/${agent.id}`, object: `/graph/objects/${object.id}`, search: `/graph?q=${encodeURIComponent(ARABIC.slice(0, 14))}&mode=vector`, chat: `/chat/${conversation}`, runs: '/runs', run: `/runs/${run}` })
})
afterAll(() => all?.stop())

const tooWide = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)

it('keeps every page as wide as the window, however long a word is', async () => {
  const { page, context } = await visit(all.browser, all.server, { size: 'narrow' })
  for (const [name, path] of Object.entries(paths)) {
    await page.goto(all.server.url + path)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.getByRole('main').getByText(name === 'search' ? /Search by meaning is off|Nothing was found/ : /Donaudampf|مراجعة/).first().waitFor()
    expect(await tooWide(page), name).toBe(0)
    // Nor does a part of it stand outside of the window where nothing scrolls to it.
    const outside = await page.evaluate(() =>
      [...document.querySelectorAll('main td, main dd, main dt, main h1, main span')].filter((element) => {
        const box = element.getBoundingClientRect()
        return box.width > 0 && box.right > innerWidth + 1 && !element.closest('.overflow-x-auto, .overflow-auto, .sr-only, .truncate')
      }).map((element) => element.outerHTML.slice(0, 120)),
    )
    expect(outside, name).toEqual([])
  }
  await context.close()
})

it('gives a wide table of an answer a scroller of its own', async () => {
  const { page, context } = await visit(all.browser, all.server, { size: 'narrow' })
  await page.goto(all.server.url + paths.chat)
  const table = page.getByRole('group', { name: 'Table' })
  await table.waitFor()
  expect(await table.evaluate((element) => element.scrollWidth > element.clientWidth)).toBe(true)
  expect(await page.getByRole('log').evaluate((element) => element.scrollWidth - element.clientWidth)).toBe(0)
  await context.close()
})

it('shows the beginning of a text that is read from the right', async () => {
  const { page, context } = await visit(all.browser, all.server)
  for (const [name, path] of [['runs', paths.runs], ['agents', paths.agents], ['object', paths.object], ['graph', '/graph?type=Contract']] as const) {
    await page.goto(all.server.url + path)
    await page.locator('main').getByText(/مراجعة/).first().waitFor()
    // The first letter is inside of every box that cuts off what does not fit.
    const lost = await page.evaluate(() => {
      const found: string[] = []
      const walker = document.createTreeWalker(document.querySelector('main')!, NodeFilter.SHOW_TEXT)
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const at = node.textContent!.indexOf('مراجعة')
        if (at < 0) continue
        const range = document.createRange()
        range.setStart(node, at)
        range.setEnd(node, at + 1)
        const letter = range.getBoundingClientRect()
        if (letter.width === 0) continue
        for (let box = node.parentElement; box && box.tagName !== 'MAIN'; box = box.parentElement) {
          const { left, right } = box.getBoundingClientRect()
          if (getComputedStyle(box).overflowX !== 'visible' && box.clientWidth > 1 && (letter.right > right + 1 || letter.left < left - 1)) found.push(box.outerHTML.slice(0, 160))
        }
      }
      return found
    })
    expect(lost, name).toEqual([])
  }
  await context.close()
})

it('keeps the focus among the actions of an object that was deleted with the keyboard', async () => {
  const { page, context } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  await page.goto(all.server.url + paths.object)
  await page.getByRole('button', { name: 'Delete…' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Delete the object' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Restore…' }).waitFor()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Actions on the object')
  await context.close()
})
