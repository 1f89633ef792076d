// Dialogs about one thing are in the URL: a link opens them, Back closes them, and the focus is where it was.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { AGENTS, outage, prepareWorkflows, untilWorkflow } from './workflow-seed'

type Case = [path: string, button: RegExp, dialog: RegExp]
let all: Awaited<ReturnType<typeof startAll>>
let ended: string
let workflow: string
let object: string

beforeAll(async () => {
  all = await startAll()
  const { server } = all
  await prepareWorkflows(server)
  writeScripts(server, { brief: 'rules:\n  - when: {}\n    answer: { text: Done. }\n' })
  await server.api('POST', '/api/admin/agents', { name: 'brief', model: rehearsal('brief') })
  ended = await trigger(server, 'brief', 'Say that it is done')
  await untilStatus(server, ended, 'completed')
  workflow = await outage(server)
  await untilWorkflow(server, workflow, 'escalated')
  object = (await server.api<{ id: string }>('POST', '/api/graph/objects', { type: 'Note', properties: { title: 'First' } })).id
  await server.api('PATCH', `/api/graph/objects/${object}`, { properties: { title: 'Second' } })
})
afterAll(() => all?.stop())

it('opens each dialog by its button, closes it with Back, and opens it again by a link', async () => {
  const cases: Case[] = [
    [`/runs/${ended}`, /^Revert…/, /Revert what this run wrote/],
    [`/runs/${ended}`, /^Save as test…/, /test/],
    [`/workflows/${workflow}`, /^Resume, add budget…/, /Resume the workflow/],
    [`/workflows/${workflow}?task=write-release`, /^Retry…/, /Retry “/],
    [`/graph/objects/${object}`, /^Edit$/, /Edit Second/],
    [`/graph/objects/${object}`, /^Delete…/, /Delete Second/],
    [`/graph/objects/${object}`, /^Add$/, /Add a relationship/],
    [`/graph/objects/${object}?tab=history&v=1`, /^Revert to it…/, /Revert to version 1/],
  ]
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  for (const [path, name, title] of cases) {
    await page.goto(all.server.url + path)
    const button = page.getByRole('button', { name }).last()
    const dialog = page.getByRole('dialog', { name: title })
    await button.focus()
    await page.keyboard.press('Enter')
    await dialog.waitFor()
    expect(page.url(), path).toContain('dialog=')
    const link = page.url()
    await page.goBack()
    await dialog.waitFor({ state: 'detached' })
    await expect.poll(() => button.evaluate((element) => element === document.activeElement), { message: path }).toBe(true)
    await page.goto(link)
    await dialog.waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(page.url(), path).not.toContain('dialog=')
  }
  misbehaviour.check()
  await context.close()
})

it('leads from what a workflow waits for to the dialog of its task', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/workflows/${workflow}`)
  await page.getByRole('region', { name: 'Needs a person' }).getByRole('button', { name: 'Reassign…' }).click()
  await page.getByRole('dialog', { name: /Reassign “/ }).waitFor()
  expect(page.url()).toContain('task=write-release')
  await page.reload()
  const dialog = page.getByRole('dialog', { name: /Reassign “/ })
  await dialog.getByLabel('Agent').selectOption(AGENTS[2]!.name)
  await page.goBack()
  await dialog.waitFor({ state: 'detached' })
  misbehaviour.check()
  await context.close()
})

it('says in a dialog that a link opened why it cannot be confirmed', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const reason = (name: string) => page.getByRole('dialog').getByRole('button', { name }).getAttribute('aria-description')
  await page.goto(`${all.server.url}/runs/${ended}?dialog=cancel`)
  expect(await reason('Cancel the run')).toBe('The run has ended.')
  await page.goto(`${all.server.url}/runs/${ended}?dialog=resume`)
  expect(await reason('Resume the run')).toBe('Only a paused run can be resumed; this one is completed.')
  await page.goto(`${all.server.url}/workflows/${workflow}?dialog=budget`)
  expect(await reason('Change the budget')).toBe('The workflow has stopped: resume it with another budget.')
  await page.goto(`${all.server.url}/graph/objects/${object}?dialog=restore`)
  expect(await reason('Restore the object')).toBe('The object is not deleted.')
  // What is not known opens nothing.
  await page.goto(`${all.server.url}/graph/objects/${object}?dialog=nothing`)
  await page.getByRole('heading', { level: 1, name: 'Second' }).waitFor()
  expect(await page.getByRole('dialog').count()).toBe(0)
  misbehaviour.check()
  await context.close()
})
