// A run that is saved as a test, and the test played on the same server.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { audit, CONTRACT_AUDITOR, seedWork } from './seed-work'

const LEDGER = `
rules:
  - when: { step: 1 }
    answer:
      thought: It has no number yet.
      calls: [{ tool: entities_create, input: { type: Entry, properties: { text: "Fuel surcharge, March", note: "a: b # c\\n- d" } } }]
  - when: { step: 2 }
    answer:
      text: "Now its amount:\\n\\n  18,240 EUR"
      calls: [{ tool: entities_update, input: { id: "{{results.entities_create.objects.0.id}}", properties: { amountEur: 18240.5 } } }]
  - when: {}
    answer: { text: "The entry {{results.entities_create.objects.0.id}} is complete." }
`

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  await seedWork(all.server)
  writeScripts(all.server, { ledger: LEDGER })
  await all.server.api('POST', '/api/admin/agents', { name: 'ledger-keeper', description: 'Keeps the ledger.', tools: ['entities_*'], model: rehearsal('ledger') })
})
afterAll(() => all?.stop())

type Message = { role: string; content: { text: string; thoughts?: string } }
type Call = { toolName: string; input: Record<string, unknown>; status: string }

/** What the model said and which tools it called. */
async function record(agent: string, run: string) {
  const messages = await all.server.api<Message[]>('GET', `/api/admin/agents/${agent}/runs/${run}/messages?role=assistant&limit=100`)
  const calls = await all.server.api<Call[]>('GET', `/api/admin/agents/${agent}/runs/${run}/tool-calls?limit=100`)
  return { said: messages.map(({ content }) => [content.thoughts ?? '', content.text]), calls: calls.map(({ toolName, input, status }) => ({ toolName, input, status })) }
}

/** Saves a run in the browser and puts the file where the dialog says. */
async function save(run: string, name: string) {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${run}`)
  await page.getByRole('button', { name: 'Save as test…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Save as a test' })
  await dialog.getByLabel('Name of the script').fill(name)
  const notes = await dialog.getByRole('listitem').allTextContents()
  const command = await dialog.getByRole('region', { name: 'The command' }).textContent()
  const coming = page.waitForEvent('download')
  await dialog.getByRole('button', { name: `Download ${name}.yaml` }).click()
  const file = await coming
  expect(file.suggestedFilename()).toBe(`${name}.yaml`)
  const yaml = readFileSync((await file.path())!, 'utf8')
  expect(await dialog.getByRole('region', { name: 'The script' }).textContent()).toBe(yaml)
  writeScripts(all.server, { [name]: yaml })
  misbehaviour.check()
  await context.close()
  return { yaml, notes, command }
}

it('plays the same answers and the same tool calls', async () => {
  const first = await audit(all.server)
  const { notes, command } = await save(first, 'audit-2026')
  expect(notes.join()).toContain('The tools are called again, for real')
  expect(command).toBe(`emergent agent trigger ${CONTRACT_AUDITOR} --input 'Audit the framework contract with Northwind Logistics for 2026.' --model rehearsal/audit-2026 --follow`)
  await all.server.api('POST', `/api/admin/agents/${CONTRACT_AUDITOR}/runs/${first}/revert`, {})
  const again = await audit(all.server, { model: rehearsal('audit-2026') })
  expect(await untilStatus(all.server, again, 'completed')).toMatchObject({ model: 'rehearsal/audit-2026' })
  expect(await record(CONTRACT_AUDITOR, again)).toEqual(await record(CONTRACT_AUDITOR, first))
  // The agents that it starts use the same model, and so the same script.
  const below = async (run: string) => {
    const { childRuns } = await all.server.api<{ childRuns: { id: string; agentName: string }[] }>('GET', `/api/admin/runs/${run}`)
    return Promise.all(childRuns.map(({ id, agentName }) => record(agentName, id)))
  }
  expect(await below(again)).toEqual(await below(first))
})

it('takes the ids of what the new run makes', async () => {
  const first = await trigger(all.server, 'ledger-keeper', "Enter March's surcharge.")
  await untilStatus(all.server, first, 'completed')
  const { yaml, command } = await save(first, 'ledger-test')
  expect(yaml).toContain('{{results.entities_create.')
  expect(command).toContain(`--input 'Enter March'\\''s surcharge.'`)
  const again = await trigger(all.server, 'ledger-keeper', "Enter March's surcharge.", { model: rehearsal('ledger-test') })
  await untilStatus(all.server, again, 'completed')
  const [before, after] = [await record('ledger-keeper', first), await record('ledger-keeper', again)]
  const ids = [before, after].map(({ calls }) => String(calls[1]!.input.id))
  expect(ids[0]).not.toBe(ids[1])
  expect(JSON.parse(JSON.stringify(before).replaceAll(ids[0]!, ids[1]!))).toEqual(after)
  expect(await all.server.api('GET', `/api/graph/objects/${ids[1]}`)).toMatchObject({ properties: { amountEur: 18240.5, note: 'a: b # c\n- d' } })
})

it('plays a run that reached its limit, and refuses a name of the program', async () => {
  const first = await trigger(all.server, 'ledger-keeper', 'Enter April.', { maxSteps: 1 })
  await untilStatus(all.server, first, 'paused')
  const { notes, command } = await save(first, 'ledger-paused')
  expect(notes.join()).toContain('Start it with the same limit')
  expect(command).toContain('--max-steps 1')
  const again = await trigger(all.server, 'ledger-keeper', 'Enter April.', { maxSteps: 1, model: rehearsal('ledger-paused') })
  await untilStatus(all.server, again, 'paused')
  expect((await record('ledger-keeper', again)).said).toEqual((await record('ledger-keeper', first)).said)

  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs/${first}`)
  await page.getByRole('button', { name: 'Save as test…' }).click()
  await page.getByLabel('Name of the script').fill('walkthrough')
  await page.locator('input[aria-invalid]').waitFor()
  expect(await page.getByRole('button', { name: /^Download/ }).getAttribute('aria-disabled')).toBe('true')
  misbehaviour.check()
  await context.close()
})

it('says of a run at work that it cannot be saved yet', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  const run = await trigger(all.server, 'rate-watcher', 'Watch the rates of Harbour Freight.')
  await page.goto(`${all.server.url}/runs/${run}`)
  const button = page.getByRole('button', { name: 'Save as test…' })
  await button.waitFor()
  expect(await button.getAttribute('aria-description')).toBe('A run can be saved as a test when it has ended.')
  misbehaviour.check()
  await context.close()
})

it('shows the dialog in both themes and widths without a violation', async () => {
  const run = await audit(all.server)
  await showEverywhere(all.browser, all.server, 'run-save-test', `/runs/${run}`, async (page) => {
    await page.getByRole('button', { name: 'Save as test…' }).click()
    await page.getByRole('region', { name: 'The command' }).waitFor()
  })
})
