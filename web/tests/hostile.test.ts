// What an agent, a document or a caller wrote is shown as text: no page turns it into elements, scripts or requests.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { say } from './seed-chat'
import { dispatch, untilWorkflow } from './workflow-seed'

const ELEMENT = '<img src="https://elsewhere.example/x.png" data-hostile onerror="window.hit = 1">'
const SCRIPT = '<script data-hostile>window.hit = 1</script><svg data-hostile onload="window.hit = 1"></svg>'
const FRAME = '<iframe data-hostile srcdoc="<script>parent.hit = 1</script>"></iframe><base data-hostile href="https://elsewhere.example/">'
const LINKS = '[open](javascript:window.hit=1) [page](data:text/html,<script>window.hit=1</script>) [cased](JaVaScRiPt:window.hit=1) ![picture](https://elsewhere.example/x.png)'
const HOSTILE = `Hostile ${ELEMENT} ${SCRIPT} ${FRAME} ${LINKS}`
const quoted = JSON.stringify(HOSTILE)

type Named = { id: string; name: string }
let all: Awaited<ReturnType<typeof startAll>>
/** A path and whether its page has to show the hostile text. */
const pages: [path: string, shows: boolean][] = []

beforeAll(async () => {
  all = await startAll({ sample: false })
  const { server } = all
  writeScripts(server, {
    hostile: `
rules:
  - when: { turn: 1 }
    answer:
      thought: ${quoted}
      text: ${quoted}
      calls:
        - { tool: entities_get, input: { id: "Note/planted" } }
        - { tool: entities_update, input: { id: "Note/planted", properties: { title: ${quoted}, more: { ${quoted}: ${quoted} } } } }
        - { tool: ${JSON.stringify(`none${ELEMENT}`)}, input: { text: ${quoted} } }
  - when: {}
    answer: { text: ${quoted} }
`,
    asking: `
rules:
  - when: { turn: 1 }
    answer: { text: ${quoted}, calls: [{ tool: ask_user, input: { question: ${quoted} } }] }
  - when: {}
    answer: { text: Done. }
`,
  })
  const note = await server.api<Named>('POST', '/api/graph/objects', { type: 'Note', key: 'planted', properties: { title: HOSTILE, body: HOSTILE, [`name ${ELEMENT}`]: HOSTILE }, labels: [ELEMENT.slice(0, 60)] })
  const other = await server.api<Named>('POST', '/api/graph/objects', { type: 'Note', key: 'beside', properties: { title: HOSTILE } })
  await server.api('POST', '/api/graph/relationships', { type: 'mentions', fromId: note.id, toId: other.id, properties: { why: HOSTILE } })
  const document = await server.api<Named>('POST', '/api/documents', { title: `Hostile ${ELEMENT}.md`, mimeType: 'text/markdown', content: `# ${HOSTILE}\n\n${HOSTILE}\n\n${LINKS}` })
  const page = await server.api<Named>('POST', '/api/documents', { title: 'Hostile page.html', mimeType: 'text/html', content: `<html><body><h1>${HOSTILE}</h1>${SCRIPT}</body></html>` })
  const agent = await server.api<Named>('POST', '/api/admin/agents', { name: 'hostile', description: HOSTILE, systemPrompt: HOSTILE, tools: ['entities_*'], model: rehearsal('hostile') })
  await server.api('POST', '/api/admin/agents', { name: 'asking', description: HOSTILE, tools: ['ask_user'], model: rehearsal('asking') })
  const run = await trigger(server, 'hostile', HOSTILE)
  await untilStatus(server, run, 'completed', 'failed')
  const question = await trigger(server, 'asking', HOSTILE)
  await untilStatus(server, question, 'waiting')
  const conversation = await say(server, { message: HOSTILE, agentDefinitionId: agent.id })
  const workflow = await dispatch(server, { tasks: [{ key: 'one', title: HOSTILE.slice(0, 190), description: HOSTILE, assignedAgent: 'hostile' }] })
  await untilWorkflow(server, workflow, 'completed')
  await server.api('POST', '/api/admin/mcp-servers', { name: 'tickets', transport: 'http', url: 'https://tickets.example.com/mcp', enabled: false })
  pages.push(
    ['/', false],
    ['/inbox', true],
    ['/runs', true],
    [`/runs/${run}`, true],
    [`/runs/${run}?tab=writes`, true],
    [`/runs/${run}?tab=steps`, true],
    [`/runs/compare?left=${run}&right=${question}`, true],
    ['/workflows', true],
    [`/workflows/${workflow}`, true],
    [`/workflows/${workflow}?task=one`, true],
    [`/chat/${conversation}`, true],
    ['/graph', true],
    ['/graph?q=hostile', true],
    [`/graph?view=explore&from=${note.id}`, true],
    [`/graph/objects/${note.id}`, true],
    ['/documents', true],
    [`/documents/${document.id}`, true],
    [`/documents/${page.id}`, true],
    ['/agents', true],
    [`/agents/${agent.id}`, true],
    ['/audit', false],
  )
})
afterAll(() => all?.stop())

/** What of the hostile text became more than text. */
const interpreted = (page: Page) =>
  page.evaluate(() => ({
    hit: 'hit' in window,
    elements: [...document.querySelectorAll('[data-hostile], base, iframe, script:not([src])')].map((one) => one.outerHTML.slice(0, 120)),
    links: [...document.querySelectorAll('[href], [src], [action], [formaction]')].flatMap((one) => ['href', 'src', 'action', 'formaction'].map((name) => one.getAttribute(name) ?? '')).filter((value) => /^\s*(javascript|data|vbscript):|elsewhere/i.test(value)),
  }))

const isLoaded = (page: Page) => page.waitForFunction(() => !document.querySelector('main [aria-busy=true], main [aria-label=Loading]'))

/** Unfolds whatever can be unfolded, one after the other because some fold what is above, and checks after each. */
async function unfold(page: Page, check: () => Promise<void>) {
  for (;;) {
    const one = await page.evaluateHandle(() => {
      const next = [...document.querySelectorAll<HTMLElement>('main details:not([open]) > summary, main button[aria-expanded=false]:not([aria-haspopup])')].find((found) => found.dataset.unfolded === undefined)
      if (next) next.dataset.unfolded = ''
      next?.click()
      return next
    })
    const element = one.asElement()
    if (!element) return
    await page.waitForFunction((found) => !found.isConnected || found.getAttribute('aria-expanded') === 'true' || found.closest('details')?.open, element)
    await isLoaded(page)
    await check()
  }
}

it('shows hostile names, answers, calls, properties and documents as text on every page', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  page.on('dialog', (dialog) => misbehaviour.found.push(`dialog: ${dialog.message()}`))
  for (const [path, shows] of pages) {
    await page.goto(all.server.url + path)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await isLoaded(page)
    if (shows) await page.getByText(/Hostile/).first().waitFor({ state: 'attached' })
    const check = async () => {
      expect(await interpreted(page), path).toEqual({ hit: false, elements: [], links: [] })
      expect(misbehaviour.found, path).toEqual([])
    }
    await check()
    await unfold(page, check)
    // The part that the tab shows has it as well, not only the head of the page.
    if (path.includes('tab=writes')) await page.getByRole('tabpanel').getByText(/Hostile/).first().waitFor({ state: 'attached' })
  }
  // The check itself sees an element that is one.
  await page.evaluate(() => document.body.insertAdjacentHTML('beforeend', '<b data-hostile></b>'))
  expect((await interpreted(page)).elements).toEqual(['<b data-hostile=""></b>'])
  await context.close()
})
