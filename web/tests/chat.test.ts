import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { rehearsal } from './seed'
import { ASKS, conversationOf, say, seedChat } from './seed-chat'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const SCRIPTS = {
  librarian: `
rules:
  - when: { turn: 1 }
    answer:
      text: I look in the graph.
      calls: [{ tool: search_hybrid, input: { query: "Ada Lovelace", limit: 5 } }]
  - when: {}
    delay_ms: 200
    answer:
      text: |
        **Ada Lovelace** published the first algorithm meant for a machine, in her notes on the *Analytical Engine*.

        - She worked with Charles Babbage.
        - Her notes appeared in 1843; note G is the most famous.
`,
  forwarder: `
rules:
  - when: {}
    answer:
      text: |
        **Forwarded**: <img src=x onerror="document.title='broken'"><p style="color: red">Red</p> [open](javascript:alert(1)) ![logo](https://example.org/logo.png)
`,
  archivist: `
rules:
  - when: { step: 1 }
    answer:
      text: I remove the outdated note.
      calls: [{ tool: entities_delete, input: { id: "Note/outdated" } }]
  - when: {}
    answer: { text: The note is gone. }
`,
  reader: `
rules:
  - when: { turn: 1 }
    answer:
      text: I look in the documents.
      calls: [{ tool: documents_search, input: { query: "kettle", limit: 3 } }]
  - when: {}
    answer: { text: The kettle is in the second kitchen. }
`,
  cartographer: `
rules:
  - when: { turn: 1 }
    answer:
      text: I look at what is connected.
      calls: [{ tool: graph_traverse, input: { startIds: ["Person/ada-lovelace"], maxDepth: 1 } }]
  - when: {}
    answer: { text: Ada Lovelace is connected with several people and machines. }
`,
  slow: `
rules:
  - when: {}
    delay_ms: 600000
    answer: { text: Done. }
`,
}

type Message = { id: string; role: string; content: string; status: string; parentId: string | null }
let all: Awaited<ReturnType<typeof startAll>>
let agents: Record<string, string>
let talk: string

const messagesOf = (id: string) => all.server.api<Message[]>('GET', `/api/chat/conversations/${id}/messages`)

beforeAll(async () => {
  all = await startAll()
  agents = await seedChat(all.server, SCRIPTS, [
    { name: 'librarian', description: 'Answers questions about people and what they wrote.', tools: ['search_hybrid'] },
    { name: 'archivist', description: 'Tidies up notes, and asks before it deletes.', ...ASKS },
    { name: 'forwarder', description: 'Passes on what it was sent.' },
    { name: 'reader', description: 'Answers questions from documents.', tools: ['documents_search'] },
    { name: 'cartographer', description: 'Says what is connected.', tools: ['graph_traverse'] },
    { name: 'translator', description: 'Translates letters and articles.', model: rehearsal('slow') },
  ])
  talk = await say(all.server, { message: 'Who was Ada Lovelace, and what did she write?', agentDefinitionId: agents.librarian })
  await say(all.server, { message: 'When did her notes appear?', conversationId: talk })
  for (const message of ['Which papers cite the notes on the Analytical Engine?', 'Summarise what we know about Charles Babbage', 'Who corresponded with Mary Somerville?']) await say(all.server, { message, agentDefinitionId: agents.librarian })
})
afterAll(() => all?.stop())

it('shows the chat everywhere', () =>
  showEverywhere(all.browser, all.server, 'chat', '/chat', async (page) => {
    await page.getByRole('link', { name: 'Who corresponded with Mary Somerville?' }).waitFor()
    await page.getByLabel('Who answers').waitFor()
  }))

it('shows a conversation everywhere', () =>
  showEverywhere(all.browser, all.server, 'conversation', `/chat/${talk}`, async (page) => {
    await page.getByRole('article', { name: 'Answer' }).last().getByRole('strong').waitFor()
    await page.getByRole('list', { name: 'Sources' }).first().waitFor()
  }))

it('marks each answer that a script gave', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/chat/${talk}`)
  const answers = page.getByRole('article', { name: 'Answer', exact: true })
  await answers.nth(1).getByTitle('A script answered instead of a model').waitFor()
  expect(await answers.filter({ has: page.getByText('Rehearsal', { exact: true }) }).count()).toBe(2)
  misbehaviour.check()
  await context.close()
})

it('begins a conversation, shows its calls, and opens a source', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat?agent=librarian`)
  await page.getByLabel('Message').fill('Who was Ada?')
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/chat\/[0-9a-f-]{36}/)
  const answer = page.getByRole('article', { name: 'Answer', exact: true })
  await answer.getByRole('strong').filter({ hasText: 'Ada Lovelace' }).waitFor()
  await page.getByRole('button', { name: /search_hybrid/ }).or(page.getByRole('button', { name: /tool call/ })).first().click()
  await page.getByText(/Input|search_hybrid/).first().waitFor()
  await answer.getByRole('list', { name: 'Sources' }).getByRole('link', { name: /Ada Lovelace/ }).click()
  await page.waitForURL(/\/graph\/objects\//)
  misbehaviour.check()
  await context.close()
})

it('opens the passage of a document that an answer cites', async () => {
  const { id } = await all.server.api<{ id: string }>('POST', '/api/documents', { title: 'House rules.md', mimeType: 'text/markdown', content: `# Kitchens\n\n${'Leave the kitchen as you found it. '.repeat(60)}\n\n# Tea\n\nThe kettle is in the second kitchen. ${'Fill it for the next one. '.repeat(60)}` })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/chat?agent=reader`)
  await page.getByLabel('Message').fill('Where is the kettle?')
  await page.keyboard.press('Enter')
  const answer = page.getByRole('article', { name: 'Answer', exact: true })
  await answer.getByText('The kettle is in the second kitchen.').waitFor()
  const source = answer.getByRole('list', { name: 'Sources' }).getByRole('link').first()
  expect(await source.innerText()).toMatch(/House rules\.md, passage \d+/)
  await source.click()
  await page.waitForURL(new RegExp(`/documents/${id}\\?.*chunk=`))
  const chunk = new URL(page.url()).searchParams.get('chunk')!
  // The passage itself is in sight, not only the head of its document.
  const passage = page.locator(`[id="chunk-${chunk}"]`)
  await passage.getByText(/The kettle is in the second kitchen/).waitFor()
  await expect.poll(() => passage.evaluate((one) => one.getBoundingClientRect().top < innerHeight && one.getBoundingClientRect().bottom > 0), { timeout: 30_000 }).toBe(true)
  misbehaviour.check()
  await context.close()
})

it('names what each source connects, so that no two look the same', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/chat?agent=cartographer`)
  await page.getByLabel('Message').fill('Who is Ada Lovelace connected with?')
  await page.keyboard.press('Enter')
  const answer = page.getByRole('article', { name: 'Answer', exact: true })
  await answer.getByText('Ada Lovelace is connected with several people and machines.').waitFor()
  const sources = answer.getByRole('list', { name: 'Sources' }).getByRole('listitem')
  await sources.filter({ hasText: 'relationship' }).first().waitFor()
  const texts = await sources.allInnerTexts()
  expect(new Set(texts).size).toBe(texts.length)
  // Both ends of the relationship are among the sources, and it opens the first of them.
  const between = sources.filter({ hasText: 'relationship' }).filter({ hasText: 'Ada Lovelace' }).first()
  expect(await between.innerText()).not.toContain('…')
  await between.getByRole('link').click()
  await page.waitForURL(/\/graph\/objects\//)
  misbehaviour.check()
  await context.close()
})

it('exports a conversation with what was asked and answered', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/chat/${talk}`)
  await page.getByText('When did her notes appear?').waitFor()
  const save = async (format: RegExp) => {
    await page.getByRole('button', { name: 'Export…' }).click()
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: format }).click()])
    return { name: file.suggestedFilename(), text: readFileSync((await file.path())!, 'utf8') }
  }
  const { name, text } = await save(/^Markdown/)
  expect(name).toMatch(/\.md$/)
  for (const part of ['Who was Ada Lovelace, and what did she write?', '**Ada Lovelace** published the first algorithm', 'When did her notes appear?']) expect(text).toContain(part)
  const lines = await save(/^JSON lines/)
  expect(lines.name).toMatch(/\.jsonl$/)
  const [head, ...messages] = lines.text.trim().split('\n').map((line) => JSON.parse(line) as { id: string; content?: string })
  expect([head!.id, messages[0]!.content]).toEqual([talk, 'Who was Ada Lovelace, and what did she write?'])
  misbehaviour.check()
  await context.close()
})

it('exports a conversation of the project that the address names', async () => {
  await all.server.api('POST', '/api/projects', { name: 'archive' })
  const inArchive = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(all.server.url + path, { ...init, headers: { Authorization: `Bearer ${all.server.token}`, 'X-Project-ID': 'archive', 'Content-Type': 'application/json' } })
    return ((await response.json()) as { data: { id: string } }).data
  }
  const { id: agentDefinitionId } = await inArchive('/api/admin/agents', { method: 'POST', body: JSON.stringify({ name: 'archivist', model: rehearsal('librarian') }) })
  const { id } = await inArchive('/api/chat/conversations', { method: 'POST', body: JSON.stringify({ title: 'Old letters', agentDefinitionId }) })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/chat/${id}?project=archive`)
  await page.getByRole('button', { name: 'Export…' }).click()
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: /^Markdown/ }).click()])
  expect(readFileSync((await file.path())!, 'utf8')).toContain('# Old letters')
  misbehaviour.check()
  await context.close()
})

it('shows what could run, load or style as plain text', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat?agent=forwarder`)
  await page.getByLabel('Message').fill('What did they send?')
  await page.keyboard.press('Enter')
  const answer = page.getByRole('article', { name: 'Answer', exact: true })
  await answer.getByRole('strong').filter({ hasText: 'Forwarded' }).waitFor()
  expect(await answer.locator('img,[style],script,a[href^=javascript]').count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('edits a message into a branch, switches between branches, and answers again', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat/${talk}`)
  await page.getByText('When did her notes appear?').waitFor()
  const before = await messagesOf(talk)
  await page.getByRole('article', { name: 'Message' }).nth(1).getByRole('button', { name: 'Edit the message' }).click()
  await page.getByRole('textbox', { name: 'Edit the message' }).fill('Where did her notes appear?')
  await page.getByRole('button', { name: 'Send as a branch' }).click()
  await page.getByText('2 / 2').waitFor()
  await page.getByRole('article', { name: 'Answer', exact: true }).nth(1).waitFor()
  await page.getByRole('button', { name: 'Earlier branch' }).click()
  await page.getByText('1 / 2').waitFor()
  await page.getByText('When did her notes appear?').waitFor()
  await page.getByRole('button', { name: 'Answer again' }).nth(1).click()
  await page.getByText('3 / 3').waitFor()
  await page.getByRole('article', { name: 'Answer', exact: true }).nth(1).waitFor()
  const after = await messagesOf(talk)
  expect(after.length).toBe(before.length + 4)
  expect(new Set(after.filter(({ role }) => role === 'user').slice(1).map(({ parentId }) => parentId)).size).toBe(1)
  misbehaviour.check()
  await context.close()
})

it('denies a call inside the conversation, and says so instead of that it failed', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat?agent=archivist`)
  await page.getByLabel('Message').fill('Remove what is outdated')
  await page.keyboard.press('Enter')
  const card = page.getByRole('region', { name: 'Approval' })
  await card.getByRole('button', { name: 'Deny' }).click()
  await card.getByLabel('Reason').fill('Not before March.')
  await card.getByRole('button', { name: 'Deny the call' }).click()
  const call = page.getByRole('button', { name: /entities_delete/ })
  await call.getByText('Denied').waitFor()
  expect(await call.getByText('Failed').count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('approves a call inside the conversation, while another tab follows', async () => {
  // What would change is asked for once more when the note is gone.
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat?agent=archivist`)
  await page.getByLabel('Message').fill('Remove what is outdated')
  await page.keyboard.press('Enter')
  const card = page.getByRole('region', { name: 'Approval' })
  await card.getByText('archivist wants to call entities_delete').waitFor()
  await card.getByText('Deletes Note/outdated and its relationships.').waitFor()
  await page.getByText('Waiting for you').waitFor()
  expect(await page.getByText('Writing…').count()).toBe(0)
  const other = await context.newPage()
  await other.goto(page.url())
  await other.getByRole('region', { name: 'Approval' }).waitFor()
  await page.bringToFront()
  await card.getByRole('button', { name: 'Approve' }).click()
  await page.getByText('The note is gone.').waitFor()
  await other.bringToFront()
  await other.getByText('The note is gone.').waitFor()
  expect(await other.getByText('Waiting for you').count()).toBe(0)
  const id = conversationOf(page.url())
  expect((await messagesOf(id)).at(-1)).toMatchObject({ role: 'assistant', status: 'completed', content: 'The note is gone.' })
  misbehaviour.check()
  await context.close()
})

it('says in the list that a conversation is being answered, and stops the answer with Escape', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat?agent=translator`)
  const field = page.getByLabel('Message')
  await field.fill('Dear Sir,')
  await field.press('Shift+Enter')
  await field.pressSequentially('please translate this.')
  await field.press('Enter')
  await page.waitForURL(/\/chat\/[0-9a-f-]{36}/)
  await page.getByRole('button', { name: 'Stop' }).waitFor()
  const row = page.getByRole('listitem').filter({ has: page.locator('a[aria-current=page][href^="/chat/"]') })
  await row.getByText('Answering', { exact: true }).waitFor()
  await page.getByRole('textbox', { name: 'Message', exact: true }).press('Escape')
  await page.getByText('Stopped. The text so far is the answer.').waitFor()
  await row.getByText('translator', { exact: true }).waitFor()
  const messages = await messagesOf(conversationOf(page.url()))
  expect(messages[0]!.content).toBe('Dear Sir,\nplease translate this.')
  expect(messages[1]!.status).toBe('stopped')
  misbehaviour.check()
  await context.close()
})

it('goes on without loss after the connection was lost', async () => {
  const { page, context } = await visit(all.browser, all.server)
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat?agent=archivist`)
  await page.getByLabel('Message').fill('Remove it once more')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Approval' }).waitFor()
  const id = conversationOf(page.url())
  await context.setOffline(true)
  const { waitingFor } = await all.server.api<{ waitingFor: { approvalId: string }[] }>('GET', `/api/chat/conversations/${id}`)
  await all.server.api('POST', `/api/approvals/${waitingFor[0]!.approvalId}/decide`, { decision: 'deny', reason: 'Keep it.' })
  await context.setOffline(false)
  await page.getByRole('article', { name: 'Answer', exact: true }).waitFor({ timeout: 30_000 })
  expect(await page.getByRole('article', { name: 'Answer', exact: true }).count()).toBe(1)
  // After a reload the calls come from the record of the run, which also knows that this one was denied.
  await page.reload()
  await page.getByRole('button', { name: 'Show 1 tool call' }).click()
  await page.getByRole('button', { name: /entities_delete.*Denied/ }).waitFor()
  await page.getByRole('button', { name: 'Hide 1 tool call' }).waitFor()
  await page.getByRole('link', { name: 'Run', exact: true }).click()
  await page.getByText('Of 1 tool call: 1 denied, 0 failed.').waitFor()
  await page.getByRole('log', { name: 'Transcript' }).getByRole('button', { name: /entities_delete denied/ }).waitFor()
  await page.getByRole('option', { name: /entities_delete.*denied/ }).waitFor()
  await page.getByLabel('What is shown').selectOption('errors')
  await page.getByText('Nothing of this kind happened.').waitFor()
  await context.close()
})

it('searches, renames and deletes conversations', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(40_000)
  await page.goto(`${all.server.url}/chat`)
  // All answers name Babbage, and the search also looks at messages.
  await page.getByLabel('Search the conversations').fill('Summarise')
  await page.waitForURL(/q=Summarise/)
  await page.getByRole('link', { name: 'Who corresponded with Mary Somerville?' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: /Actions for Summarise/ }).click()
  await page.getByRole('menuitem', { name: 'Rename…' }).click()
  await page.getByLabel('Title').fill('Charles Babbage in short')
  await page.getByRole('button', { name: 'Rename', exact: true }).click()
  await page.getByRole('link', { name: 'Charles Babbage in short' }).waitFor()
  expect(await page.getByRole('link', { name: 'Who corresponded with Mary Somerville?' }).count()).toBe(0)
  await page.getByRole('button', { name: /Actions for Charles/ }).click()
  await page.getByRole('menuitem', { name: 'Delete…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the conversation' }).click()
  // While the dialog is open, no link of the page has a role.
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'Charles Babbage in short' }).waitFor({ state: 'detached' })
  const titles = (await all.server.api<{ title: string }[]>('GET', '/api/chat/conversations')).map(({ title }) => title)
  expect(titles).not.toContain('Charles Babbage in short')
  misbehaviour.check()
  await context.close()
})

it('opens a conversation at the message that a link names, on its branch', async () => {
  const id = await say(all.server, { message: 'Who was Ada Lovelace?', agentDefinitionId: agents.librarian })
  for (const message of ['What did she write?', 'Where did she live?', 'Whom did she meet?', 'What came after?']) await say(all.server, { message, conversationId: id })
  const first = (await messagesOf(id)).find(({ content }) => content === 'What did she write?')!
  // Another first question begins a branch, which is the newest and shown without the link.
  await say(all.server, { message: 'Who was Mary Somerville?', conversationId: id, parentId: (await messagesOf(id)).find(({ role }) => role === 'user')!.id })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/chat/${id}`)
  const log = page.getByRole('log', { name: 'Messages' })
  await log.getByText('Who was Mary Somerville?').waitFor()
  expect(await log.getByText('What did she write?').count()).toBe(0)
  await page.goto(`${all.server.url}/chat/${id}?message=${first.id}`)
  const message = page.locator('article[aria-current=true]')
  await message.getByText('What did she write?').waitFor()
  await log.getByText('What came after?').waitFor({ state: 'attached' })
  await page.getByRole('article', { name: 'Answer', exact: true }).last().getByRole('strong').waitFor({ state: 'attached' })
  await expect.poll(() => message.evaluate((one) => {
    const [box, log] = [one.getBoundingClientRect(), one.closest('[role=log]')!.getBoundingClientRect()]
    return box.top >= log.top && box.bottom <= log.bottom
  })).toBe(true)
  misbehaviour.check()
  await context.close()
})
