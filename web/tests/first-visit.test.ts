import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'
import { Server } from './server'

type Workflow = { id: string; status: string; description: string }

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll({ sample: false })
})
afterAll(() => all?.stop())

it('leads a first visit in both themes and widths', { timeout: 240_000 }, () =>
  showEverywhere(all.browser, all.server, 'first-visit', '/', async (page) => {
    await page.getByRole('button', { name: 'Run the demo…' }).waitFor()
    await page.getByText('The settings list them all.').waitFor()
  }))

it('stays away once it was dismissed', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(all.server.url)
  await page.getByRole('button', { name: 'Dismiss' }).click()
  await page.getByRole('button', { name: 'Run the demo…' }).waitFor({ state: 'detached' })
  await page.reload()
  await page.getByText('No agent is running.').waitFor()
  expect(await page.getByRole('button', { name: 'Run the demo…' }).count()).toBe(0)
  misbehaviour.check()
  await context.close()
})

it('runs the demo after its plan was accepted, to its end, and leads on', { timeout: 240_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  // The graph before the demo is not what it wrote.
  await page.goto(`${all.server.url}/graph`)
  await page.getByRole('heading', { name: 'Graph', level: 1 }).waitFor()
  // Both buttons show the same plan of the same demo, and Back closes it.
  const dialog = page.getByRole('dialog', { name: 'Run the demo workflow' })
  const plan = async (path: string) => {
    await page.goto(all.server.url + path)
    await page.getByRole('button', { name: 'Run the demo…' }).first().click()
    await dialog.getByText('What it will use, if you accept').first().waitFor()
    await dialog.getByText('research-assistant: Every weekday at 08:00 (UTC)').waitFor()
    return dialog.innerText()
  }
  const ofList = await plan('/workflows')
  await page.goBack()
  await dialog.waitFor({ state: 'detached' })
  expect(await plan('/')).toBe(ofList)
  await page.getByText('paper-summarizer: with each document').waitFor()
  await page.getByText('pause or delete there what you do not want').waitFor()
  await page.getByRole('listitem').filter({ hasText: 'job daily-digest' }).getByText('(Every weekday at 08:00 (UTC), starts research-assistant)').waitFor()
  expect(await all.server.api('GET', '/api/products')).toEqual([])
  await page.getByRole('button', { name: 'Accept and run the demo' }).click()
  await page.waitForURL(/\/workflows\/[0-9a-f-]{36}/, { timeout: 60_000 })
  const id = /workflows\/([0-9a-f-]{36})/.exec(page.url())?.[1]
  const end = Date.now() + 150_000
  for (;;) {
    const { status } = await all.server.api<Workflow>('GET', `/api/coordination/workflows/${id}`)
    if (status === 'completed') break
    if (!['planning', 'running'].includes(status) || Date.now() > end) throw new Error(`the demo is ${status}`)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  // It is what `emergent demo` plays: a plan, a discussion, a test that fails, a second attempt and a review.
  const { tasks } = await all.server.api<{ tasks: { key: string; attempts: number; requiresCollaboration: boolean }[] }>('GET', `/api/coordination/workflows/${id}`)
  expect(tasks.map(({ key, attempts, requiresCollaboration }) => `${key} ${attempts}${requiresCollaboration ? ' discussed' : ''}`)).toEqual(['research-tagging 1', 'design-tagging 1 discussed', 'implement-tagging 2', 'test-tagging 2', 'review-tagging 1'])
  expect((await all.server.api<{ enabled: boolean }[]>('GET', '/api/admin/mcp-servers')).filter((one) => one.enabled)).toEqual([])
  await page.goto(all.server.url)
  const guide = page.getByRole('region', { name: 'Start here' })
  await guide.getByRole('heading', { name: 'Run the demo workflow · done' }).waitFor()
  await guide.getByRole('link', { name: 'Show how it went' }).waitFor()
  expect(await page.getByRole('button', { name: 'Run the demo…' }).count()).toBe(0)
  expect(await guide.getByRole('heading', { level: 3 }).allTextContents()).toEqual(['Run the demo workflow · done', 'Look at what it wrote', 'Connect a model', 'Chat about it'])
  await guide.getByRole('link', { name: 'graph' }).click()
  await page.getByRole('heading', { name: 'Graph', level: 1 }).waitFor()
  await page.goto(all.server.url)
  await guide.getByRole('heading', { name: 'Look at what it wrote · done' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('says why the chat needs a key, and lets a script search the graph without one', { timeout: 120_000 }, async () => {
  // Twice: the second time, the agent of the first is there.
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [409] } })
  for (const message of ['tagging', 'zeppelins']) {
    await page.goto(all.server.url)
    const guide = page.getByRole('region', { name: 'Start here' })
    await guide.getByText('this server has a key for none').waitFor()
    await guide.getByRole('link', { name: 'connect one' }).waitFor()
    await guide.getByRole('button', { name: 'Chat with a script' }).click()
    await page.waitForURL(/\/chat\?agent=demo-guide/)
    await expect.poll(() => page.getByLabel('Who answers').inputValue()).toBe('demo-guide')
    await page.getByLabel('Message').fill(message)
    await page.getByRole('button', { name: 'Send' }).click()
    await page.waitForURL(/\/chat\/[0-9a-f-]{36}/)
    await page.getByText(message === 'tagging' ? 'Nearest to your words in the graph is the' : 'The graph has nothing with these words.').first().waitFor()
    await page.getByText('A script answers here').first().waitFor()
  }
  misbehaviour.check()
  await context.close()
})

it('asks the default agent in the chat, and says what the search without an agent needs', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [409] } })
  await all.server.api('POST', '/api/products/install', { source: 'emergent.memory', accept: true })
  await all.server.api('POST', '/api/admin/agents', { name: 'front-desk', systemPrompt: 'You repeat.', visibility: 'external', model: { provider: 'rehearsal', name: 'echo' }, isDefault: true })
  await page.goto(`${all.server.url}/chat`)
  const who = page.getByLabel('Who answers')
  await who.locator('option[value=graph-query-agent]').waitFor({ state: 'attached' })
  expect(await who.inputValue()).toBe('front-desk')
  await who.selectOption('search')
  await page.getByLabel('Message').fill('What is a tag?')
  await page.getByRole('button', { name: 'Send' }).click()
  const alert = page.getByRole('alert')
  await alert.getByText('The search has no agent, so it needs a model for the whole server').waitFor()
  expect(await alert.textContent()).not.toContain('or give the agent a model')
  misbehaviour.check()
  await context.close()
})

it('does not say that a provider can be used because nobody named another address', { timeout: 120_000 }, async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/settings`)
  const row = page.getByRole('row').filter({ hasText: 'ollama' })
  await row.getByText('Not checked').waitFor()
  await row.getByText('At its default address, if it runs there.').waitFor()
  expect(await row.textContent()).not.toMatch(/Can be used|Set by/)
  misbehaviour.check()
  await context.close()
})

it('goes away when all steps are done', { timeout: 180_000 }, async () => {
  const server = await Server.start({ sample: false, env: { EMERGENT_MODEL: 'rehearsal/echo' } })
  try {
    const { page, context, misbehaviour } = await visit(all.browser, server)
    await page.goto(server.url)
    const guide = page.getByRole('region', { name: 'Start here' })
    await guide.getByRole('heading', { name: 'Connect a model · done' }).waitFor()
    await guide.getByText('Every agent uses rehearsal/echo').waitFor()
    await server.api('POST', '/api/admin/agents', { name: 'writer', systemPrompt: 'You write.' })
    await server.api('POST', '/api/coordination/dispatch', { tasks: [{ key: 'one', title: 'Write a line', assignedAgent: 'writer' }] })
    await guide.getByRole('heading', { name: 'Run the demo workflow · done' }).waitFor()
    await page.goto(`${server.url}/chat?agent=search`)
    await page.getByLabel('Message').fill('What was written?')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.waitForURL(/\/chat\/[0-9a-f-]{36}/)
    await page.goto(server.url)
    await guide.getByRole('heading', { name: 'Chat about it · done' }).waitFor()
    await guide.getByRole('link', { name: 'graph' }).click()
    await page.getByRole('heading', { name: 'Graph', level: 1 }).waitFor()
    await page.goto(server.url)
    await page.getByText('No agent is running.').waitFor()
    await guide.waitFor({ state: 'detached' })
    await page.reload()
    await page.getByText('No agent is running.').waitFor()
    expect(await guide.count()).toBe(0)
    misbehaviour.check()
    await context.close()
  } finally {
    await server.stop()
  }
})
