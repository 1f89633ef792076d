import axe from 'axe-core'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { held, showEverywhere, startAll, visit } from './harness'
import { rehearsal, writeScripts } from './seed'
import { dispatch, outage, prepareWorkflows, untilWorkflow, walkthrough, type WorkflowView, workflowOf } from './workflow-seed'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  await prepareWorkflows(all.server)
  const done = await walkthrough(all.server)
  const asked = await outage(all.server, { budgetUsd: 5 })
  await dispatch(all.server, { tasks: [{ key: 'watch', title: 'Watch the nightly builds', assignedAgent: 'editor' }, { key: 'report', title: 'Report what broke', assignedAgent: 'editor', blockedBy: ['watch'] }], model: rehearsal('asleep') })
  const cancelled = await dispatch(all.server, { tasks: [{ key: 'digest', title: 'Send the digest of the week', assignedAgent: 'editor' }], model: rehearsal('asleep') })
  await all.server.api('POST', `/api/coordination/workflows/${cancelled}/cancel`)
  await untilWorkflow(all.server, done, 'completed')
  await untilWorkflow(all.server, asked, 'escalated')
})
afterAll(() => all?.stop())

it('shows the workflows everywhere', () =>
  showEverywhere(all.browser, all.server, 'workflows', '/workflows', async (page) => {
    const row = page.getByRole('row').filter({ hasText: 'document tagging system' })
    await row.getByText('Completed').waitFor()
    await row.getByTitle('A script answered instead of a model').waitFor()
    if ((page.viewportSize()?.width ?? 0) > 768) await page.getByText('5 / 5').waitFor()
  }))

it('shows the dispatch dialog with its plan, without a violation in it', async () => {
  for (const [size, theme] of [['wide', 'light'], ['narrow', 'dark']] as const) {
    const { page, context, misbehaviour } = await visit(all.browser, all.server, { size, theme })
    await page.goto(`${all.server.url}/workflows?dispatch=new`)
    const dialog = page.getByRole('dialog', { name: 'Dispatch a workflow' })
    for (const [index, title, agent] of [[1, 'Collect the figures of the quarter', 'data-analyst'], [2, 'Explain why churn fell', 'data-analyst'], [3, 'Edit the report for customers', 'editor']] as const) {
      if (index > 1) await dialog.getByRole('button', { name: 'Add a task' }).click()
      const task = dialog.getByRole('group', { name: `Task ${index}`, exact: true })
      await task.getByLabel('Title').fill(title)
      await task.getByLabel('Agent').selectOption(agent)
    }
    await dialog.getByLabel('Model').fill('rehearsal/steady')
    await dialog.getByRole('button', { name: 'Check the plan' }).click()
    const plan = page.getByRole('region', { name: 'Plan' })
    await plan.getByText('The task names editor').waitFor()
    await page.screenshot({ path: fileURLToPath(new URL(`./screenshots/dispatch-${theme}-${page.viewportSize()!.width}.png`, import.meta.url)), animations: 'disabled' })
    await plan.scrollIntoViewIfNeeded()
    await page.screenshot({ path: fileURLToPath(new URL(`./screenshots/dispatch-plan-${theme}-${page.viewportSize()!.width}.png`, import.meta.url)), animations: 'disabled' })
    await page.evaluate(axe.source)
    expect(await page.evaluate('axe.run("[role=dialog]", { resultTypes: ["violations"] }).then(({ violations }) => violations.map(({ id, nodes }) => id + " " + nodes[0].html))')).toEqual([])
    misbehaviour.check()
    await context.close()
  }
})

it('counts skipped tasks apart from those that are done', async () => {
  const id = await outage(all.server)
  const { tasks } = await untilWorkflow(all.server, id, 'escalated')
  const failed = tasks.find(({ status }) => status === 'failed')!
  // What depends on it is skipped with it.
  await all.server.api('POST', `/api/coordination/tasks/${failed.id}/skip`, { reason: 'Not needed.' })
  const skipped = (await untilWorkflow(all.server, id, 'completed', 'failed')).tasks.filter(({ status }) => status === 'skipped').length
  expect(skipped).toBe(2)
  for (const size of ['wide', 'narrow'] as const) {
    const { page, context, misbehaviour } = await visit(all.browser, all.server, { size })
    await page.goto(`${all.server.url}/workflows`)
    const row = page.getByRole('row').filter({ has: page.locator(`a[href="/workflows/${id}"]`) })
    if (size === 'wide') expect((await row.getByText('2 / 4').innerText()).split(/\s*\n\s*/)).toEqual(['2 / 4', '2 skipped'])
    else await row.getByText('2 of 4 done, 2 skipped').waitFor()
    await row.getByRole('link').click()
    await page.getByText('Tasks: 2 of 4 done, 2 skipped').waitFor()
    for (const theme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: theme })
      await page.locator(`html[data-theme=${theme}]`).waitFor({ state: 'attached' })
      await page.screenshot({ path: fileURLToPath(new URL(`./screenshots/workflow-skipped-${theme}-${page.viewportSize()!.width}.png`, import.meta.url)), animations: 'disabled' })
    }
    misbehaviour.check()
    await context.close()
  }
})

it('filters by status in the URL, and shows a new workflow without a reload', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(60_000)
  await page.goto(`${all.server.url}/workflows`)
  await page.getByRole('row').nth(1).waitFor()
  await page.getByLabel('Status').selectOption('escalated')
  await page.waitForURL(/status=escalated/)
  await page.getByText('1 shown').waitFor()
  await page.reload()
  await page.getByText('1 shown').waitFor()
  await page.getByRole('button', { name: 'Clear' }).click()
  const id = await dispatch(all.server, { tasks: [{ key: 'translate', title: 'Translate the terms of use', assignedAgent: 'editor' }], model: rehearsal('steady') })
  await page.locator(`a[href="/workflows/${id}"]`).waitFor()
  await page.getByRole('row').filter({ hasText: 'Translate the terms of use' }).getByText('Completed').waitFor()
  misbehaviour.check()
  await context.close()
})

it('shows problems at their fields, then the plan, then dispatches exactly that', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/workflows`)
  await page.getByRole('button', { name: 'Dispatch…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Dispatch a workflow' })
  const first = dialog.getByRole('group', { name: 'Task 1', exact: true })
  await first.getByLabel('Key').fill('not a key')
  await dialog.getByRole('button', { name: 'Check the plan' }).click()
  await first.getByText('must have 1 to 64 letters').waitFor()
  await first.getByText('is required').waitFor()
  await first.getByLabel('Key').fill('')
  await first.getByLabel('Title').fill('Collect the figures')
  await first.getByLabel('Instruction').fill('Revenue, churn and support load of the last quarter.')
  await first.getByLabel('Agent').selectOption('data-analyst')
  await dialog.getByRole('button', { name: 'Add a task' }).click()
  const second = dialog.getByRole('group', { name: 'Task 2', exact: true })
  await second.getByLabel('Title').fill('Edit the report')
  await second.getByLabel('Agent').selectOption('editor')
  expect(await second.getByRole('button', { name: 'collect-the-figures' }).getAttribute('aria-pressed')).toBe('true')
  await dialog.getByLabel('Model').fill('nowhere/steady')
  await dialog.getByRole('button', { name: 'Check the plan' }).click()
  // The problems of the check before are shown until the answer is there.
  const model = dialog.getByLabel('Model').and(page.locator('[aria-invalid=true]'))
  const wrong = dialog.locator(`[id="${await model.getAttribute('aria-describedby')}"]`)
  expect((await wrong.boundingBox())!.width).toBeGreaterThan(2 * (await dialog.getByLabel('Model').boundingBox())!.width)
  await dialog.getByLabel('Model').fill('rehearsal/steady')
  await dialog.getByLabel('Budget, tokens').fill('many')
  await dialog.getByRole('button', { name: 'Check the plan' }).click()
  await dialog.getByText(/number above zero is needed/).first().waitFor()
  await dialog.getByLabel('Budget, tokens').fill('50,000')
  await dialog.getByRole('button', { name: 'Check the plan' }).click()
  const plan = dialog.getByRole('region', { name: 'Plan' })
  await plan.getByText('The task names editor').waitFor()
  // Also for those who do not see the picture or its colours.
  expect(await plan.getByRole('listitem').allInnerTexts()).toEqual([expect.stringContaining('Starts at once. '), expect.stringContaining('After Collect the figures. ')])
  await dialog.getByRole('button', { name: 'Dispatch', exact: true }).click()
  await page.waitForURL(/\/workflows\/[0-9a-f-]{36}/)
  await page.locator('[data-task=edit-the-report][data-status=completed]').waitFor()
  const workflow = await workflowOf(all.server, /workflows\/([0-9a-f-]{36})/.exec(page.url())![1]!)
  expect(workflow.tasks.map(({ key, agent }) => [key, agent])).toEqual([['collect-the-figures', 'data-analyst'], ['edit-the-report', 'editor']])
  expect(workflow.budget.limit.tokens).toBe(50_000)
  misbehaviour.check()
  await context.close()
})

it('only checks with Enter, however long it is held, and closes with Back what the palette opened', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const asked: boolean[] = []
  page.on('request', (request) => request.url().endsWith('/dispatch') && asked.push((JSON.parse(request.postData()!) as { dryRun: boolean }).dryRun))
  await page.goto(`${all.server.url}/workflows`)
  await page.getByRole('heading', { level: 1, name: 'Workflows' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.keyboard.type('dispatch a workflow')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Dispatch a workflow' })
  await dialog.waitFor()
  await page.goBack()
  await dialog.waitFor({ state: 'detached' })
  expect(new URL(page.url()).pathname).toBe('/workflows')
  await page.goForward()
  await dialog.getByLabel('Model').fill('rehearsal/steady')
  await dialog.getByLabel('Title').fill('Collect the figures')
  for (let count = 0; count < 5; count++) await page.keyboard.down('Enter')
  await dialog.getByRole('region', { name: 'Plan' }).waitFor()
  await page.keyboard.down('Enter')
  await page.keyboard.up('Enter')
  expect(asked).toEqual([true])
  for (let count = 0; count < 2; count++) await page.keyboard.press('Enter')
  await expect.poll(() => asked.length).toBeGreaterThan(1)
  expect(asked).not.toContain(false)
  misbehaviour.check()
  await context.close()
})

it('says of a goal that an agent plans its tasks after the dispatch, and which one', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/workflows?dispatch=new`)
  const dialog = page.getByRole('dialog', { name: 'Dispatch a workflow' })
  await dialog.getByRole('tab', { name: 'A goal' }).click()
  await dialog.getByText('a check cannot show them').waitFor()
  await dialog.getByLabel('What is to be done').fill('Compare the invoices of March with the agreed rates')
  await dialog.getByLabel('Model').fill('rehearsal/steady')
  await dialog.getByRole('button', { name: 'Check the goal' }).click()
  const plan = dialog.getByRole('region', { name: 'Plan' })
  await plan.getByText('There are no tasks to show yet.').waitFor()
  expect(await plan.getByRole('link', { name: 'task-planner' }).getAttribute('href')).toBe('/agents/task-planner')
  // What was described would be lost in the same tab.
  expect(await plan.getByRole('link', { name: 'task-planner' }).getAttribute('target')).toBe('_blank')
  expect(await dialog.getByRole('button', { name: 'Dispatch', exact: true }).isEnabled()).toBe(true)
  misbehaviour.check()
  await context.close()
})

// The last task does not end, so that the workflow is still at work when a person looks.
const PLANNED = `
rules:
  - when: { agent: task-planner, turn: 1 }
    answer:
      text: Two tasks, one after the other.
      calls:
        - tool: entities_create
          input:
            objects:
              - { ref: compare, type: SpecTask, properties: { key: compare-invoices, title: Compare the invoices, description: Compare each invoice of March with the agreed rates., assigned_agent: data-analyst } }
              - { ref: report, type: SpecTask, properties: { key: report-differences, title: Report the differences, description: List what was charged too much., assigned_agent: editor } }
            relationships: [{ type: blocks, fromRef: compare, toRef: report }]
  - when: { agent: task-planner }
    answer: { text: First the comparison and then the report. }
  - when: { agent: data-analyst }
    answer: { text: Three invoices are above the agreed rates. }
  - when: {}
    delay_ms: 600000
    answer: { text: The report names three invoices. }
`

it('dispatches a goal, and shows the tasks that the agent planned as soon as they are there', async () => {
  writeScripts(all.server, { planned: PLANNED })
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/workflows?dispatch=new`)
  const dialog = page.getByRole('dialog', { name: 'Dispatch a workflow' })
  await dialog.getByRole('tab', { name: 'A goal' }).click()
  await dialog.getByLabel('What is to be done').fill('Compare the invoices of March with the agreed rates')
  await dialog.getByLabel('Model').fill('rehearsal/planned')
  const dispatchIt = dialog.getByRole('button', { name: 'Dispatch', exact: true })
  expect(await dispatchIt.getAttribute('aria-disabled')).toBe('true')
  await dialog.getByRole('button', { name: 'Check the goal' }).click()
  await dialog.getByRole('region', { name: 'Plan' }).getByText('There are no tasks to show yet.').waitFor()
  await dispatchIt.click()
  await page.waitForURL(/\/workflows\/[0-9a-f-]{36}/)
  await page.getByRole('heading', { level: 1, name: /Compare the invoices of March/ }).waitFor()
  await page.locator('[data-task=compare-invoices][data-status=completed]').waitFor()
  await page.locator('[data-task=report-differences][data-status=in_progress]').click()
  const panel = page.getByRole('region', { name: 'Task report-differences' })
  await panel.getByText('List what was charged too much.').waitFor()
  await page.getByRole('list', { name: 'Decisions' }).getByText('The plan became tasks').waitFor()
  const id = /workflows\/([0-9a-f-]{36})/.exec(page.url())![1]!
  const { tasks, description } = await workflowOf(all.server, id)
  expect([description, tasks.map(({ key, agent }) => [key, agent])]).toEqual(['Compare the invoices of March with the agreed rates', [['compare-invoices', 'data-analyst'], ['report-differences', 'editor']]])
  await all.server.api('POST', `/api/coordination/workflows/${id}/cancel`)
  misbehaviour.check()
  await context.close()
})

it('takes JSON', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(60_000)
  await page.goto(`${all.server.url}/workflows?dispatch=new`)
  const dialog = page.getByRole('dialog', { name: 'Dispatch a workflow' })
  await dialog.getByRole('tab', { name: 'JSON' }).click()
  const field = dialog.getByLabel('A list of tasks, or the whole request')
  await field.fill('[{ "key": "a" ')
  await dialog.getByRole('button', { name: 'Check the plan' }).click()
  await dialog.getByText('This is no JSON').waitFor()
  await field.fill('{ "tasks": [{ "key": "proofread", "title": "Proofread the handbook", "assignedAgent": "editor" }], "model": { "provider": "rehearsal", "name": "steady" } }')
  await dialog.getByRole('button', { name: 'Check the plan' }).click()
  await dialog.getByRole('region', { name: 'Plan' }).getByText('Proofread the handbook').first().waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  misbehaviour.check()
  await context.close()
})

it('plays the demo of the program in a project of its own, because it was played here', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  context.setDefaultTimeout(60_000)
  await page.goto(`${all.server.url}/workflows`)
  await page.getByRole('button', { name: 'Run the demo…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Run the demo workflow' })
  await dialog.getByText('The demo was played in this project before.').waitFor()
  await dialog.getByRole('button', { name: 'Play it in a new project…' }).click()
  await page.waitForURL(/project=demo-2/)
  const run = dialog.getByRole('button', { name: /run the demo$/i })
  await dialog.getByRole('button', { name: 'Accept and run the demo' }).waitFor()
  // What an earlier dialog knew does not start it: it may have been played since.
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  const products = await held(page, '**/api/products')
  await page.getByRole('button', { name: 'Run the demo…' }).first().click()
  await products.arrived
  expect(await run.getAttribute('aria-disabled')).toBe('true')
  products.release()
  await dialog.getByRole('button', { name: 'Accept and run the demo' }).click()
  await page.waitForURL(/\/workflows\/[0-9a-f-]{36}.*project=demo-2/)
  const id = /workflows\/([0-9a-f-]{36})/.exec(page.url())![1]!
  const read = async () => {
    const response = await fetch(`${all.server.url}/api/coordination/workflows/${id}`, { headers: { Authorization: `Bearer ${all.server.token}`, 'X-Project-ID': 'demo-2' } })
    return ((await response.json()) as { data: WorkflowView }).data
  }
  await vi.waitFor(async () => expect((await read()).status).toBe('completed'), { timeout: 150_000, interval: 300 })
  // The test that failed once.
  const data = await read()
  expect(data.tasks).toHaveLength(5)
  expect(data.tasks.some((task) => task.attempts > 1)).toBe(true)
  misbehaviour.check()
  await context.close()
})
