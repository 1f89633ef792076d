// The name of one thing is as long as somebody made it. Its page keeps its buttons in their place, and loses no text.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectAccessible, startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { dispatch, prepareWorkflows } from './workflow-seed'

const SIZES = [390, 768, 1280].map((width) => ({ width, height: 844 }))
const SENTENCE = 'Prepare the release of the quarter for every customer, with notes in five languages, a table of all known limits, and figures of the teams that worked on it, as agreed in the meeting of the board'
const WORD = 'Donaudampfschifffahrtsgesellschaftskapitaen'.repeat(3).slice(0, 120)
const SHORT = 'Tidy up'
const GOAL = `${SENTENCE}\n\nThe last line of the goal names who reads it.`

type Paths = { short: string; long: string[] }
let all: Awaited<ReturnType<typeof startAll>>
const pages: Record<string, Paths> = {}

beforeAll(async () => {
  all = await startAll()
  const { server } = all
  await prepareWorkflows(server)
  writeScripts(server, { asleep: 'rules:\n  - when: {}\n    delay_ms: 600000\n    answer: { text: Done. }\n', quick: 'rules:\n  - when: {}\n    answer: { text: Done. }\n' })
  const each = async (make: (title: string) => Promise<string>, titles = [SENTENCE, WORD]): Promise<Paths> => {
    const short = await make(SHORT)
    const long: string[] = []
    for (const title of titles) long.push(await make(title))
    return { short, long }
  }
  const idOf = async (path: string, body: object) => (await server.api<{ id: string }>('POST', path, body)).id
  pages.workflow = await each(async (description) => `/workflows/${await dispatch(server, { description, model: rehearsal('asleep') })}`, [GOAL, WORD])
  pages.object = await each(async (title) => `/graph/objects/${await idOf('/api/graph/objects', { type: 'Note', properties: { title } })}`)
  pages.chat = await each(async (title) => `/chat/${await idOf('/api/chat/conversations', { title })}`)
  const name = (title: string) => (title === SHORT ? 'tidy' : title.slice(0, 100))
  pages.agent = await each(async (title) => `/agents/${await idOf('/api/admin/agents', { name: name(title), model: rehearsal('quick'), description: title }).then(() => name(title))}`, [WORD])
  pages.run = await each(async (title) => `/runs/${(await untilStatus(server, await trigger(server, name(title), title), 'completed')).id}`, [WORD])
})
afterAll(() => all?.stop())

/** Where the title and the buttons are, from the edges of their header. */
async function layoutOf(page: Page, path: string) {
  await page.goto(all.server.url + path)
  const header = page.locator('main header').first()
  await header.getByRole('button').first().waitFor()
  return header.evaluate((element) => {
    const outer = element.getBoundingClientRect()
    const title = element.querySelector('h1')!.getBoundingClientRect()
    const buttons = element.lastElementChild!.getBoundingClientRect()
    return {
      isBeside: buttons.top < title.bottom && buttons.left >= title.right,
      top: buttons.top < title.bottom ? Math.round(buttons.top - outer.top) : 'below',
      left: Math.round(buttons.left - outer.left),
      height: Math.round(buttons.height),
      titleHeight: title.height,
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      text: element.querySelector('h1')!.textContent,
    }
  })
}

it.each(['workflow', 'object', 'chat', 'agent', 'run'])('keeps the buttons of the page of one %s in their place, however long its name is', async (kind) => {
  const { short, long } = pages[kind]!
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  for (const size of SIZES) {
    await page.setViewportSize(size)
    const before = await layoutOf(page, short)
    for (const path of long) {
      const { text, titleHeight, ...after } = await layoutOf(page, path)
      const where = `${kind} at ${size.width} px: ${text}`
      expect(after, where).toMatchObject({ isBeside: before.isBeside, top: before.top, left: before.left, height: before.height, overflow: 0 })
      if (size.width === 1280) expect(after.isBeside, where).toBe(true)
      // Three lines of the name, and a line of what is beside it, such as its status.
      expect(titleHeight, where).toBeLessThan(160)
      await page.screenshot({ path: `tests/screenshots/header-${kind}-${long.indexOf(path)}-${size.width}.png` })
      await expectAccessible(page, where)
    }
  }
  misbehaviour.check()
  await context.close()
})

it('has the whole name of a thing on its page, and the whole goal of a workflow', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size: 'narrow' })
  for (const [kind, { long }] of Object.entries(pages)) {
    await page.goto(all.server.url + long[0]!)
    const heading = page.getByRole('heading', { level: 1 })
    const whole = kind === 'agent' || kind === 'run' ? WORD.slice(0, 100) : SENTENCE
    await expect.poll(() => heading.textContent(), { message: kind }).toContain(whole)
  }
  await page.goto(all.server.url + pages.workflow!.long[0]!)
  await page.getByRole('group', { name: 'About the workflow' }).getByText('names who reads it').waitFor()
  await page.goto(all.server.url + pages.workflow!.long[1]!)
  await page.getByRole('group', { name: 'About the workflow' }).getByText(WORD).waitFor()
  misbehaviour.check()
  await context.close()
})
