import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { showEverywhere, startAll, visit, visitAs } from './harness'
import { rehearsal } from './seed'
import { dispatch, outage, prepareWorkflows, QUARTER, untilWorkflow, walkthrough, workflowOf } from './workflow-seed'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

let all: Awaited<ReturnType<typeof startAll>>
let done: string
let asked: string
beforeAll(async () => {
  all = await startAll()
  await prepareWorkflows(all.server)
  done = await walkthrough(all.server)
  asked = await outage(all.server, { budgetUsd: 5 })
  await untilWorkflow(all.server, done, 'completed')
  await untilWorkflow(all.server, asked, 'escalated')
})
afterAll(() => all?.stop())

const open = async (path: string, more: Parameters<typeof visit>[2] = {}) => {
  const visitor = await visit(all.browser, all.server, more)
  await visitor.page.goto(all.server.url + path)
  return visitor
}

/** A workflow at work with a limit, and the dialog that changes it. */
async function openBudget(statuses: number[] = []) {
  const id = await dispatch(all.server, { tasks: [{ key: 'watch', title: 'Watch the nightly builds', assignedAgent: 'editor' }], budgetTokens: 50_000, model: rehearsal('asleep') })
  const visitor = await open(`/workflows/${id}`, { expected: { statuses } })
  await visitor.page.locator('[data-task=watch][data-status=in_progress]').waitFor()
  await visitor.page.getByRole('button', { name: 'Change the budget…' }).click()
  return { ...visitor, id, dialog: visitor.page.getByRole('dialog', { name: 'Change the budget' }) }
}

/** A workflow that waits for a person because a discussion ended without an outcome. */
async function undecided(key: string, title: string): Promise<string> {
  const id = await dispatch(all.server, { tasks: [{ key, title, assignedAgent: 'editor', requiresCollaboration: true, collaborators: ['data-analyst'], discussion: { kind: 'consensus' } }], model: rehearsal('undecided') })
  await untilWorkflow(all.server, id, 'escalated')
  return id
}

it('shows a workflow with the selected task everywhere', () =>
  showEverywhere(all.browser, all.server, 'workflow', `/workflows/${done}?task=design-tagging`, async (page) => {
    await page.getByRole('article', { name: /Discussion/ }).getByText('APPROVED. Looks complete.').waitFor()
    await page.getByRole('list', { name: 'Decisions' }).getByText('The workflow ended: completed').waitFor()
  }))

it('shows a workflow that needs a person everywhere', () =>
  showEverywhere(all.browser, all.server, 'workflow-escalated', `/workflows/${asked}`, async (page) => {
    await page.getByRole('heading', { name: 'This workflow needs you' }).waitFor()
    await page.getByRole('list', { name: 'Decisions' }).getByText('A person is asked').waitFor()
    await page.locator('[data-status=escalated]').or(page.getByText('Write the notes of version 2.4')).first().waitFor()
  }))

it('marks a workflow whose answers come from a script, also to whoever may not see its runs', async () => {
  const { page, context, misbehaviour } = await open(`/workflows/${done}`)
  const mark = page.getByTitle('A script answered instead of a model')
  await mark.waitFor()
  // Nobody planned this one.
  await page.goto(`${all.server.url}/workflows/${asked}`)
  await mark.waitFor()
  misbehaviour.check()
  await context.close()
  const { token } = await all.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Reader', scopes: ['agents:read'] })
  const reader = await open(`/workflows/${done}`, { logIn: false, expected: { statuses: [401] } })
  await reader.page.getByLabel('Token').fill(token)
  await reader.page.keyboard.press('Enter')
  await reader.page.getByRole('list', { name: 'Decisions' }).getByText('The workflow ended: completed').waitFor()
  await reader.page.getByTitle('A script answered instead of a model').waitFor()
  reader.misbehaviour.check()
  await reader.context.close()
})

it('shows names in the sentences of the server as code, without backticks', async () => {
  const { escalation } = await all.server.api<{ escalation: { reason: string } }>('GET', `/api/coordination/workflows/${asked}`)
  expect(escalation.reason).toContain('`write-release`')
  const { page, context, misbehaviour } = await open(`/workflows/${asked}`)
  for (const place of [page.getByRole('region', { name: 'Needs a person' }), page.getByRole('list', { name: 'Decisions' })]) {
    await place.locator('code').getByText('write-release', { exact: true }).first().waitFor()
    expect(await place.innerText()).not.toContain('`')
  }
  misbehaviour.check()
  await context.close()
})

it('selects tasks with the keyboard and keeps the selection in the URL', async () => {
  const { page, context, misbehaviour } = await open(`/workflows/${done}`)
  const graph = page.getByRole('listbox', { name: /Tasks/ })
  await graph.focus()
  await page.keyboard.press('ArrowDown')
  await page.waitForURL(/task=research-tagging/)
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  await page.waitForURL(/task=implement-tagging/)
  const panel = page.getByRole('region', { name: 'Task implement-tagging' })
  await panel.getByText('2 attempts').waitFor()
  expect(await panel.getByRole('link', { name: /implement-agent/ }).count()).toBe(2)
  expect(await page.getByRole('option', { selected: true }).getAttribute('data-task')).toBe('implement-tagging')
  await page.keyboard.press('ArrowDown')
  await page.getByRole('region', { name: 'Task test-tagging' }).getByText('NEEDS_CHANGES', { exact: true }).waitFor()
  await page.reload()
  await page.getByRole('region', { name: 'Task test-tagging' }).waitFor()
  await page.getByRole('button', { name: 'List' }).click()
  await page.getByRole('list', { name: 'Tasks' }).getByRole('button', { name: 'Research tagging' }).click()
  await page.getByRole('region', { name: 'Task research-tagging' }).getByRole('button', { name: 'Retry…' }).hover()
  await page.getByText('it accepts no more changes').waitFor()
  misbehaviour.check()
  await context.close()
})

it('says why a task waits, and why its agent got it', async () => {
  const id = await dispatch(all.server, { tasks: [{ key: 'watch', title: 'Watch the nightly builds', assignedAgent: 'editor' }, { key: 'figures', title: 'Collect the figures', assignedAgent: 'data-analyst' }, { key: 'report', title: 'Report what broke', assignedAgent: 'editor', blockedBy: ['watch', 'figures'] }], model: rehearsal('asleep') })
  const { page, context, misbehaviour } = await open(`/workflows/${id}?task=watch`)
  const part = (task: string, title: string) => page.getByRole('region', { name: `Task ${task}` }).locator('section').filter({ has: page.getByRole('heading', { name: title, exact: true }) })
  await part('watch', 'Why editor').getByText('The task names editor', { exact: true }).waitFor()
  await part('watch', 'Why editor').locator('code').getByText('editor', { exact: true }).waitFor()
  expect(await part('watch', 'Why it waits').count()).toBe(0)
  await page.locator('[data-task=report]').click()
  await part('report', 'Why it waits').getByText('It starts when “watch”, “figures” are completed.', { exact: true }).waitFor()
  // No agent has it yet.
  expect(await page.getByRole('region', { name: 'Task report' }).getByRole('heading', { name: /^Why / }).count()).toBe(1)
  await all.server.api('POST', `/api/coordination/workflows/${id}/cancel`, {})
  misbehaviour.check()
  await context.close()
})

it('says whom a task waits for that failed', async () => {
  const { page, context, misbehaviour } = await open(`/workflows/${asked}?task=edit-report`)
  const panel = page.getByRole('region', { name: 'Task edit-report' })
  await panel.getByRole('heading', { name: 'Why it waits' }).waitFor()
  await panel.getByText('It starts when “write-release” is completed.', { exact: true }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('follows a workflow live to its end', async () => {
  const id = await dispatch(all.server, { tasks: QUARTER, model: rehearsal('unhurried') })
  const { page, context, misbehaviour } = await open(`/workflows/${id}`)
  await page.locator('[data-task=edit-report][data-status=pending]').waitFor()
  await page.locator('[data-status=in_progress]').first().waitFor()
  context.setDefaultTimeout(60_000)
  await page.locator('[data-task=edit-report][data-status=completed]').waitFor()
  await page.getByRole('list', { name: 'Decisions' }).getByText('The workflow ended: completed').waitFor()
  const events = await page.getByRole('list', { name: 'Decisions' }).getByRole('listitem').count()
  expect(events).toBe((await all.server.api<{ eventSeq: number }>('GET', `/api/coordination/workflows/${id}`)).eventSeq)
  misbehaviour.check()
  await context.close()
})

it('reassigns a failed task, and the workflow goes on to its end', async () => {
  const id = await outage(all.server)
  await untilWorkflow(all.server, id, 'escalated')
  const { page, context, misbehaviour } = await open(`/workflows/${id}`)
  await page.getByRole('region', { name: 'Needs a person' }).getByRole('button', { name: 'Reassign…' }).click()
  const dialog = page.getByRole('dialog', { name: /Reassign/ })
  await dialog.getByRole('button', { name: 'Reassign the task' }).hover()
  await dialog.getByLabel('Agent').selectOption('editor')
  await dialog.getByLabel('Note').fill('Keep it under ten lines.')
  await dialog.getByRole('button', { name: 'Reassign the task' }).click()
  await page.getByText('“write-release” was given to another agent.').waitFor()
  await page.locator('[data-task=edit-report][data-status=completed]').waitFor()
  const workflow = await untilWorkflow(all.server, id, 'completed')
  expect(workflow.tasks.find(({ key }) => key === 'write-release')).toMatchObject({ status: 'completed', agent: 'editor' })
  misbehaviour.check()
  await context.close()
})

it('retries and then skips a failed task', async () => {
  const id = await outage(all.server)
  await untilWorkflow(all.server, id, 'escalated')
  const { page, context, misbehaviour } = await open(`/workflows/${id}?task=write-release`)
  const panel = page.getByRole('region', { name: 'Task write-release' })
  await panel.getByText('What went wrong').waitFor()
  await panel.getByRole('button', { name: 'Retry…' }).click()
  await page.getByRole('button', { name: 'Retry the task' }).click()
  await page.getByText('“write-release” is tried again.').waitFor()
  await panel.getByText(/[23] attempts/).waitFor()
  await page.getByRole('region', { name: 'Needs a person' }).getByRole('button', { name: 'Skip…' }).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('The notes are written by hand this time.')
  await page.getByRole('button', { name: 'Skip the task' }).click()
  await page.locator('[data-task=write-release][data-status=skipped]').waitFor()
  const workflow = await untilWorkflow(all.server, id, 'completed', 'failed')
  expect(workflow.tasks.map(({ key, status }) => `${key} ${status}`)).toContain('edit-report skipped')
  misbehaviour.check()
  await context.close()
})

it('resumes with a larger budget, shows a refused one at its field, and cancels', async () => {
  const id = await dispatch(all.server, { tasks: [{ key: 'figures', title: 'Collect the figures', assignedAgent: 'data-analyst' }, { key: 'wait', title: 'Publish the report', assignedAgent: 'editor', blockedBy: ['figures'] }], budgetTokens: 50, model: rehearsal('steady') })
  await untilWorkflow(all.server, id, 'escalated')
  const { page, context, misbehaviour } = await open(`/workflows/${id}`)
  await page.getByRole('button', { name: 'Resume or add budget…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Resume the workflow' })
  await dialog.getByLabel('Budget in tokens').fill('90,000')
  await dialog.getByRole('button', { name: 'Resume the workflow' }).click()
  await page.getByText('The workflow was resumed.').waitFor()
  const workflow = await untilWorkflow(all.server, id, 'completed')
  expect(workflow.budget.limit.tokens).toBe(90_000)
  await page.getByRole('list', { name: 'Decisions' }).getByText('The workflow ended: completed').waitFor()

  const second = await dispatch(all.server, { tasks: [{ key: 'watch', title: 'Watch the nightly builds', assignedAgent: 'editor' }], model: rehearsal('asleep') })
  await page.goto(`${all.server.url}/workflows/${second}`)
  await page.locator('[data-task=watch][data-status=in_progress]').waitFor()
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the workflow' }).click()
  await page.getByText('The workflow was cancelled.').waitFor()
  expect((await workflowOf(all.server, second)).status).toBe('cancelled')
  misbehaviour.check()
  await context.close()
})

it('changes the budget of a workflow at work, and shows a refused one at its field', async () => {
  const { id, page, dialog, context, misbehaviour } = await openBudget([400])
  await dialog.getByLabel('Budget in tokens').fill('50.5')
  await dialog.getByText('A budget is a whole number above zero, such as 90 or 90,000.').waitFor()
  await dialog.getByLabel('Budget in tokens').fill('50000')
  await dialog.getByLabel('Budget in dollars').fill('2000000000')
  await dialog.getByRole('button', { name: 'Change the budget' }).click()
  await dialog.getByText('at most 1000000000 dollars').waitFor()
  await dialog.getByLabel('Budget in dollars').fill('2.5')
  await dialog.getByLabel('Budget in tokens').fill('90,000')
  await dialog.getByLabel('Reason').fill('The builds take longer.')
  await dialog.getByRole('button', { name: 'Change the budget' }).focus()
  await page.keyboard.press('Enter')
  await page.getByText('The budget was changed.').waitFor()
  const decisions = page.getByRole('list', { name: 'Decisions' })
  await decisions.getByText('The budget was changed', { exact: true }).waitFor()
  await decisions.getByText('From 50000 tokens to $2.50 and 90000 tokens: The builds take longer.').waitFor()
  const workflow = await workflowOf(all.server, id)
  expect([workflow.status, workflow.budget.limit]).toEqual(['running', { usd: 2.5, tokens: 90_000 }])
  await all.server.api('POST', `/api/coordination/workflows/${id}/cancel`, {})
  await page.getByRole('button', { name: 'Resume, add budget…' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('changes only the limit that the person changed, whatever somebody else changed meanwhile', async () => {
  const { id, page, dialog, context, misbehaviour } = await openBudget()
  await dialog.getByLabel('Budget in dollars').fill('1,5')
  await dialog.getByText('A budget is a number above zero, such as 2.5 or 90,000.').waitFor()
  expect(await dialog.getByRole('button', { name: 'Change the budget' }).getAttribute('aria-disabled')).toBe('true')
  await dialog.getByLabel('Budget in dollars').fill('1.5')
  await all.server.api('PUT', `/api/coordination/workflows/${id}/budget`, { tokens: 70_000 })
  await dialog.getByRole('button', { name: 'Change the budget' }).click()
  await page.getByText('The budget was changed.').waitFor()
  expect((await workflowOf(all.server, id)).budget.limit).toEqual({ usd: 1.5, tokens: 70_000 })
  await all.server.api('POST', `/api/coordination/workflows/${id}/cancel`, {})
  misbehaviour.check()
  await context.close()
})

it('decides a discussion that ended without an outcome', async () => {
  const id = await undecided('choose-rhythm', 'Choose how often digests are sent')
  const { page, context, misbehaviour } = await open(`/workflows/${id}`)
  await page.getByRole('button', { name: 'Decide the discussion' }).click()
  const discussion = page.getByRole('article', { name: /Discussion/ })
  await discussion.getByText('You decide.').waitFor()
  await discussion.getByLabel('Reason').fill('Weekly is enough.')
  await discussion.getByRole('button', { name: 'Approved' }).click()
  await page.getByText('The discussion was decided.').waitFor()
  await discussion.getByText('Decided by a person').waitFor()
  await untilWorkflow(all.server, id, 'completed')
  misbehaviour.check()
  await context.close()
})

it('says which scope is missing to decide for a workflow that waits, and lets it be cancelled without that scope', async () => {
  const { page, context, misbehaviour } = await visitAs(all.browser, all.server, ['agents:read', 'agents:invoke'])
  await page.goto(`${all.server.url}/workflows/${asked}?task=write-release`)
  const card = page.getByRole('region', { name: 'Needs a person' })
  const panel = page.getByRole('region', { name: 'Task write-release' })
  const lacking = 'Your token lacks the scope approvals:decide.'
  for (const name of ['Retry…', 'Reassign…', 'Skip…']) {
    expect(await panel.getByRole('button', { name }).getAttribute('aria-description')).toBe(lacking)
    expect(await card.getByRole('button', { name }).getAttribute('aria-description')).toBe(lacking)
  }
  expect(await card.getByRole('button', { name: 'Cancel…' }).getAttribute('aria-description')).toBeNull()
  misbehaviour.check()
  await context.close()
})

it('lets whoever decides, and controls nothing, decide a discussion', async () => {
  const id = await undecided('choose-day', 'Choose the day of the digest')
  const controls = await visitAs(all.browser, all.server, ['agents:read', 'agents:invoke'])
  await controls.page.goto(`${all.server.url}/workflows/${id}?task=choose-day`)
  expect(await controls.page.getByRole('article', { name: /Discussion/ }).getByRole('button', { name: 'Approved' }).getAttribute('aria-description')).toBe('Your token lacks the scope approvals:decide.')
  controls.misbehaviour.check()
  await controls.context.close()
  const { page, context, misbehaviour } = await visitAs(all.browser, all.server, ['agents:read', 'approvals:decide'])
  await page.goto(`${all.server.url}/workflows/${id}?task=choose-day`)
  await page.getByRole('article', { name: /Discussion/ }).getByRole('button', { name: 'Approved' }).click()
  await page.getByText('The discussion was decided.').waitFor()
  await untilWorkflow(all.server, id, 'completed')
  misbehaviour.check()
  await context.close()
})
