// What an answer waits for, decided inside the conversation: by one of two tabs, by somebody else, and with a form.
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startAll, visit } from './harness'
import { ASKS, conversationOf, seedChat } from './seed-chat'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const SCRIPTS = {
  // Thinks for long after the decision, so that a page which shows the end of the answer shows nothing by accident.
  keeper: `
rules:
  - when: { step: 1 }
    answer:
      text: I remove the outdated note.
      calls: [{ tool: entities_delete, input: { id: "Note/outdated" } }]
  - when: {}
    delay_ms: 600000
    answer: { text: The note is gone. }
`,
  clerk: `
rules:
  - when: { step: 1, input: "terms" }
    answer:
      text: I ask for the terms first.
      calls: [{ tool: ask_user, input: { question: "Which payment terms shall we offer?", options: ["30 days net", "60 days net"] } }]
  - when: { step: 1 }
    answer:
      calls: [{ tool: ask_user, input: { question: "Who is the contact at Baltic Cargo?", responseSchema: { type: object, required: [name, limitEur], properties: { name: { type: string, title: Name }, limitEur: { type: integer, title: "Credit limit in EUR", minimum: 1000 } } } } }]
  - when: {}
    answer: { text: I noted your answer. }
`,
}

type Decided = { status: string; decision?: { decision: string; answer?: unknown } }
let all: Awaited<ReturnType<typeof startAll>>

beforeAll(async () => {
  all = await startAll({ sample: false })
  await seedChat(all.server, SCRIPTS, [{ name: 'keeper', ...ASKS }, { name: 'clerk', tools: ['ask_user'] }])
})
afterAll(() => all?.stop())

/** Begins a conversation, and returns a window that shows what its answer waits for. */
async function begin(agent: string, message: string, options: { statuses?: number[]; isDeaf?: boolean } = {}) {
  const visitor = await visit(all.browser, all.server, { expected: { statuses: options.statuses ?? [] } })
  const { page } = visitor
  // It hears no event of the project: it waits for its turn to hold the stream, as behind a tab that hangs.
  if (options.isDeaf) await page.addInitScript(() => Object.defineProperty(navigator, 'locks', { value: { request: () => new Promise(() => {}) } }))
  await page.goto(`${all.server.url}/chat?agent=${agent}`)
  await page.getByLabel('Message').fill(message)
  await page.keyboard.press('Enter')
  const card = page.getByRole('region', { name: agent === 'clerk' ? 'Question' : 'Approval' })
  await card.waitFor()
  const { waitingFor } = await all.server.api<{ waitingFor: { approvalId: string }[] }>('GET', `/api/chat/conversations/${conversationOf(page.url())}`)
  return { ...visitor, card, approvalId: waitingFor[0]!.approvalId }
}
const stop = (url: string) => all.server.api('POST', `/api/chat/conversations/${conversationOf(url)}/stop`)

it('stops to say that it waits as soon as another tab decided', async () => {
  // What would change is asked for once more when the note is gone.
  const { page, context, misbehaviour, card } = await begin('keeper', 'Remove what is outdated', { statuses: [404] })
  const other = await context.newPage()
  await other.goto(page.url())
  await other.getByRole('region', { name: 'Approval' }).waitFor()
  await other.getByText('Waiting for you').waitFor()
  await page.bringToFront()
  await card.getByRole('button', { name: 'Approve' }).click()
  for (const tab of [page, other]) {
    await tab.bringToFront()
    await tab.getByText('Waiting for you').waitFor({ state: 'detached' })
    await tab.getByText('Writing…').waitFor()
    expect(await tab.getByRole('region', { name: 'Approval' }).count()).toBe(0)
  }
  await stop(page.url())
  misbehaviour.check()
  await context.close()
})

it('tells the second of two people who decided first, and why', async () => {
  const { page, context, misbehaviour, card, approvalId } = await begin('keeper', 'Remove what is outdated', { statuses: [404, 409], isDeaf: true })
  const { token } = await all.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Dana Whitfield', scopes: ['approvals:decide', 'agents:read'] })
  const decided = await fetch(`${all.server.url}/api/approvals/${approvalId}/decide`, { method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ decision: 'deny', reason: 'Not before March.' }) })
  expect(decided.status).toBe(200)
  await card.getByRole('button', { name: 'Approve' }).click()
  await page.getByText('Dana Whitfield denied it first.').waitFor()
  await page.getByText('Your decision changed nothing. The reason: Not before March.').waitFor()
  await card.waitFor({ state: 'detached' })
  await page.getByText('Waiting for you').waitFor({ state: 'detached' })
  await stop(page.url())
  misbehaviour.check()
  await context.close()
})

it('keeps what is written in a conversation when somebody else decides, and does nothing with the rest of the sentence', async () => {
  const { page, context, misbehaviour, card, approvalId } = await begin('keeper', 'Remove what is outdated', { statuses: [404] })
  await card.getByRole('button', { name: 'Deny' }).click()
  await page.keyboard.type('There is an open claim')
  await all.server.api('POST', `/api/approvals/${approvalId}/decide`, { decision: 'approve' })
  const notice = card.getByRole('alert').filter({ hasText: 'while you wrote' })
  await notice.getByText('There is an open claim').waitFor()
  await page.getByText('Waiting for you').waitFor({ state: 'detached' })
  const before = page.url()
  await page.keyboard.type(' g a ?')
  expect(page.url()).toBe(before)
  expect(await page.getByRole('dialog').count()).toBe(0)
  await notice.getByRole('button', { name: 'Forget what you wrote' }).click()
  await card.waitFor({ state: 'detached' })
  await stop(page.url())
  misbehaviour.check()
  await context.close()
})

it('answers a question with a form where it was asked, and shows what is wrong at the field', async () => {
  const { page, context, misbehaviour, card, approvalId } = await begin('clerk', 'Find the contact of Baltic Cargo.', { statuses: [400] })
  await card.getByText('Who is the contact at Baltic Cargo?').waitFor()
  await card.getByLabel('Name').fill('Ilze Kalniņa')
  await card.getByLabel('Credit limit in EUR').fill('200')
  await card.getByRole('button', { name: 'Send the answer' }).click()
  await card.locator('input[aria-invalid]').waitFor()
  await card.getByLabel('Credit limit in EUR').fill('25000')
  await card.getByRole('button', { name: 'Send the answer' }).click()
  await page.getByText('I noted your answer.').waitFor()
  expect(await all.server.api<Decided>('GET', `/api/approvals/${approvalId}`)).toMatchObject({ status: 'decided', decision: { decision: 'answer', answer: { name: 'Ilze Kalniņa', limitEur: 25_000 } } })
  misbehaviour.check()
  await context.close()
})

it('answers a question with one of its options, and leaves letters to whoever writes', async () => {
  const { page, context, misbehaviour, card, approvalId } = await begin('clerk', 'Settle the terms of Baltic Cargo.')
  // The keys of the inbox mean nothing here.
  await page.getByRole('heading', { level: 1 }).click()
  await page.keyboard.press('d')
  expect(await card.getByLabel('Reason').count()).toBe(0)
  await card.getByRole('button', { name: '60 days net' }).click()
  await page.getByText('I noted your answer.').waitFor()
  expect(await all.server.api<Decided>('GET', `/api/approvals/${approvalId}`)).toMatchObject({ decision: { answer: '60 days net' } })
  // What it said before it asked stays when the answer is stored.
  const stored = page.locator('article[id^="message-"][aria-label="Answer"]').filter({ hasText: 'I noted your answer.' })
  await stored.getByText('I ask for the terms first.').waitFor()
  misbehaviour.check()
  await context.close()
})
