import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { untilStatus } from './seed'
import { ask, type Item, seedDesk, stuckDiscussion, stuckWorkflow, untilItem } from './seed-inbox'

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  await seedDesk(all.server)
})
afterAll(() => all?.stop())

const read = (id: string) => all.server.api<Item>('GET', `/api/approvals/${id}`)
async function open(id: string, size: 'wide' | 'narrow' = 'wide', statuses: number[] = []) {
  const visitor = await visit(all.browser, all.server, { size, expected: { statuses } })
  await visitor.page.goto(`${all.server.url}/inbox?item=${id}`)
  await visitor.page.getByRole('article', { name: 'The request' }).waitFor()
  await visitor.page.getByRole('status').filter({ hasText: 'Live' }).waitFor()
  return visitor
}

it('shows requests of every kind in both themes and widths without a violation', async () => {
  const approval = await ask(all.server, 'payments-clerk', 'Release the payment of invoice NW-2026-04.')
  const cleanup = await ask(all.server, 'vendor-cleanup', 'Remove vendors without orders.')
  const terms = await ask(all.server, 'vendor-onboarding', 'Settle the terms of Baltic Cargo.')
  const contact = await ask(all.server, 'vendor-onboarding', 'Find the contact of Baltic Cargo.')
  await stuckDiscussion(all.server)
  await stuckWorkflow(all.server)
  const discussion = await untilItem(all.server, (item) => item.kind === 'discussion')
  const escalation = await untilItem(all.server, (item) => item.kind === 'escalation' && item.title.includes('pay'))
  const show = (name: string, id: string, text: string) =>
    showEverywhere(all.browser, all.server, name, `/inbox?item=${id}`, async (page) => {
      await page.getByRole('article', { name: 'The request' }).getByText(text).first().waitFor()
    })
  try {
    await show('inbox-approval', approval.id, 'released')
    await show('inbox-question', contact.id, 'Credit limit in EUR')
    await show('inbox-discussion', discussion.id, 'index the fuel surcharge')
    await show('inbox-escalation', escalation.id, 'Report what was paid')
    await showEverywhere(all.browser, all.server, 'inbox', '/inbox', (page) => page.getByText('vendor-cleanup').or(page.getByText('entities_delete')).first().waitFor())
  } finally {
    for (const item of [approval, cleanup, terms, contact]) await all.server.api('POST', `/api/approvals/${item.id}/decide`, { decision: 'deny' })
    await all.server.api('POST', `/api/approvals/${discussion.id}/decide`, { decision: 'approve' })
    await all.server.api('POST', `/api/approvals/${escalation.id}/decide`, { decision: 'deny' })
  }
}, 400_000)

it('decides an approval with the keyboard alone, from the login on', async () => {
  const item = await ask(all.server, 'vendor-cleanup', 'Remove vendors without orders.')
  // The vendor may be asked for once more after it was deleted.
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { logIn: false, expected: { statuses: [401, 404] } })
  await page.goto(all.server.url)
  await page.getByLabel('Token').waitFor()
  for (let count = 0; count < 10 && !(await page.getByLabel('Token').evaluate((field) => field === document.activeElement)); count++) await page.keyboard.press('Tab')
  await page.keyboard.type(all.server.token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('i')
  await page.getByRole('heading', { level: 1, name: 'Inbox' }).waitFor()
  await page.getByRole('article', { name: 'The request' }).getByText('Deletes Vendor/harbour-freight').waitFor()
  await page.keyboard.press('d')
  await page.waitForFunction(() => document.activeElement?.tagName === 'TEXTAREA')
  await page.keyboard.type('We still have an open claim.')
  await page.keyboard.press('Control+Enter')
  await page.getByText('The call was denied.').waitFor()
  expect((await read(item.id)).decision).toMatchObject({ decision: 'deny', reason: 'We still have an open claim.' })

  const second = await ask(all.server, 'vendor-cleanup', 'Remove vendors without orders.')
  await page.getByRole('article', { name: 'The request' }).getByText('Deletes Vendor/harbour-freight').waitFor()
  await page.keyboard.press('a')
  expect((await read(second.id)).status).toBe('pending')
  await page.keyboard.press('Enter')
  await page.getByText('The call was approved.').waitFor()
  expect((await read(second.id)).decision?.decision).toBe('approve')
  await untilStatus(all.server, second.runId!, 'completed')
  misbehaviour.check()
  await context.close()
})

it('edits the input, and shows what is wrong with it at the field', async () => {
  const item = await ask(all.server, 'payments-clerk', 'Release the payment.')
  const { page, context, misbehaviour } = await open(item.id, 'wide', [400])
  await page.keyboard.press('e')
  const field = page.getByLabel('Input of the call').and(page.locator('textarea'))
  await field.fill('{ "id": ')
  await page.getByText(/This is no JSON/).waitFor()
  await field.fill('{ "id": "Invoice/nw-2026-04", "amount": 12 }')
  await page.getByRole('button', { name: 'Approve with this input' }).click()
  await page.locator('textarea[aria-invalid]').waitFor()
  expect(await page.locator('textarea[aria-invalid]').evaluate((area) => document.getElementById(area.getAttribute('aria-describedby') ?? '')?.textContent)).toMatch(/amount/)
  expect((await read(item.id)).status).toBe('pending')
  await field.fill('{ "id": "Invoice/nw-2026-04", "properties": { "paidEur": 30000 } }')
  await page.getByRole('button', { name: 'Approve with this input' }).click()
  await page.getByText('approved with the changed input').waitFor()
  await untilStatus(all.server, item.runId!, 'completed')
  expect(await all.server.api('GET', '/api/graph/objects/Invoice%2Fnw-2026-04')).toMatchObject({ properties: { paidEur: 30000 } })
  misbehaviour.check()
  await context.close()
})

it('answers questions by an option, in words and with a form', async () => {
  const terms = await ask(all.server, 'vendor-onboarding', 'Settle the terms of Baltic Cargo.')
  const { page, context, misbehaviour } = await open(terms.id, 'wide', [400])
  await page.getByRole('button', { name: '30 days net' }).waitFor()
  await page.keyboard.press('r')
  await page.waitForFunction(() => document.activeElement?.textContent === '30 days net')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.getByText('The question was answered.').first().waitFor()
  expect((await read(terms.id)).decision?.answer).toBe('60 days net')

  const letter = await ask(all.server, 'vendor-onboarding', 'Write the welcome letter.')
  await page.goto(`${all.server.url}/inbox?item=${letter.id}`)
  await page.getByLabel('Answer', { exact: true }).fill('Two working days within Germany.')
  await page.getByRole('button', { name: 'Send the answer' }).click()
  await page.getByText('The question was answered.').first().waitFor()
  expect((await read(letter.id)).decision?.answer).toBe('Two working days within Germany.')

  const contact = await ask(all.server, 'vendor-onboarding', 'Find the contact of Baltic Cargo.')
  await page.goto(`${all.server.url}/inbox?item=${contact.id}`)
  await page.getByLabel('Name').fill('Ilze Kalniņa')
  await page.getByLabel('Credit limit in EUR').fill('200')
  await page.getByLabel('Channel').selectOption('email')
  await page.getByRole('button', { name: 'Send the answer' }).click()
  await page.locator('input[aria-invalid]').waitFor()
  await page.getByLabel('Credit limit in EUR').fill('25000')
  await page.getByRole('button', { name: 'Send the answer' }).click()
  await page.getByText('The question was answered.').first().waitFor()
  expect((await read(contact.id)).decision?.answer).toEqual({ name: 'Ilze Kalniņa', limitEur: 25000, channel: 'email', mayWrite: false })
  misbehaviour.check()
  await context.close()
})

it('decides a discussion and resumes a workflow', async () => {
  const { workflowId } = await stuckDiscussion(all.server)
  await untilItem(all.server, (item) => item.id === workflowId)
  const { escalation } = await all.server.api<{ escalation: { discussionId: string } }>('GET', `/api/coordination/workflows/${workflowId}`)
  const discussion = { id: escalation.discussionId }
  const { page, context, misbehaviour } = await open(workflowId, 'wide', [404])
  await page.getByRole('button', { name: 'Decide the discussion' }).click()
  await page.waitForURL(new RegExp(discussion.id))
  await page.getByLabel('Or decide in your own words').fill('Index it, with a cap of 6 %.')
  await page.getByRole('button', { name: 'Decide', exact: true }).click()
  await page.getByText('The discussion was decided.').waitFor()
  expect((await read(discussion.id)).decision?.answer).toBe('Index it, with a cap of 6 %.')

  const stuck = await stuckWorkflow(all.server)
  await untilItem(all.server, (item) => item.id === stuck.workflowId)
  await page.goto(`${all.server.url}/inbox?item=${stuck.workflowId}`)
  await page.getByLabel('Note for the next attempt').fill('The certificate was renewed.')
  await page.getByRole('button', { name: 'Resume the workflow' }).click()
  await page.getByText('The workflow goes on.').waitFor()
  // It fails again, because the bank still refuses; the inbox shows it as a new request.
  await untilItem(all.server, (item) => item.id === stuck.workflowId)
  await page.goto(`${all.server.url}/inbox?item=${stuck.workflowId}`)
  await page.getByRole('button', { name: 'Cancel the workflow…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the workflow' }).click()
  await page.getByText('The workflow was cancelled.').waitFor()
  expect((await all.server.api<{ status: string }>('GET', `/api/coordination/workflows/${stuck.workflowId}`)).status).toBe('cancelled')
  misbehaviour.check()
  await context.close()
})

it('shows the list alone in a narrow window, and a request with the way back', async () => {
  const item = await ask(all.server, 'vendor-onboarding', 'Write the welcome letter.')
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { size: 'narrow' })
  await page.goto(`${all.server.url}/inbox?kind=question`)
  await page.getByRole('button', { name: /welcome letter/ }).click()
  await page.getByLabel('Answer', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'All requests' }).click()
  await page.getByRole('button', { name: /welcome letter/ }).waitFor()
  await all.server.api('POST', `/api/approvals/${item.id}/decide`, { decision: 'deny' })
  // Decided elsewhere, it leaves the list by itself.
  await page.getByText('There is nothing of this kind.').waitFor()
  await page.getByLabel('Status').selectOption('decided')
  await page.getByRole('button', { name: /welcome letter/ }).first().click()
  await page.getByText('denied it').waitFor()
  misbehaviour.check()
  await context.close()
})
