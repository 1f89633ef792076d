import { afterAll, beforeAll, expect, it } from 'vitest'
import { showEverywhere, startAll, visit } from './harness'

type Product = { name: string; version: string; agents: string[] }

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll({ sample: false })
})
afterAll(() => all?.stop())
const products = () => all.server.api<Product[]>('GET', '/api/products')

const manifest = (version: string, agents: string[]) => ({
  name: 'acme.support',
  version,
  description: 'Answers the letters of customers and sorts what they ask for.',
  agents: agents.map((name) => ({ name, description: 'Works on the letters of customers.', system_prompt: 'You answer politely and in three sentences.', tools: ['search_hybrid'] })),
})

it('installs a product after its plan was accepted', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [400] } })
  await page.goto(`${all.server.url}/products`)
  await page.getByText('No product is installed.').waitFor()
  await page.getByRole('button', { name: 'Install a product' }).first().click()
  const dialog = page.getByRole('dialog', { name: 'Install a product' })
  await dialog.getByLabel('Source').fill('emergent.nothing')
  await dialog.getByRole('button', { name: 'Show the plan' }).click()
  await dialog.getByRole('alert').getByText('emergent.nothing').first().waitFor()
  await dialog.getByLabel('Source').fill('emergent.research')
  await dialog.getByRole('button', { name: 'Show the plan' }).click()
  await dialog.getByText('uvx mcp-server-fetch').waitFor()
  expect(await products()).toEqual([])
  await dialog.getByRole('button', { name: 'Accept and install emergent.research' }).click()
  await page.getByRole('link', { name: 'emergent.research' }).waitFor()
  expect(await products()).toMatchObject([{ name: 'emergent.research' }])
  await page.getByRole('button', { name: 'Check for updates' }).click()
  await page.getByText('Every product is up to date.').waitFor()
  misbehaviour.check()
  await context.close()
})

it('says in the dialogs of a product that is not there why they do nothing, and asks the server nothing', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  const changes: string[] = []
  page.on('request', (request) => request.method() !== 'GET' && request.url().includes('/api/products') && changes.push(request.url()))
  for (const [dialog, name] of [['upgrade', 'Show the plan'], ['uninstall', 'Uninstall the product']] as const) {
    await page.goto(`${all.server.url}/products/acme.nothing?dialog=${dialog}`)
    const button = page.getByRole('dialog').getByRole('button', { name })
    await expect.poll(() => button.getAttribute('aria-description')).toBe('There is no such product in this project.')
  }
  await page.getByRole('dialog').getByRole('paragraph').getByText('There is no such product in this project.').waitFor()
  expect(changes).toEqual([])
  misbehaviour.check()
  await context.close()
})

it('upgrades a product with a manifest, and uninstalls it after showing what goes', async () => {
  await all.server.api('POST', '/api/products/install', { manifest: manifest('1.0.0', ['letter-sorter']) })
  const { page, context, misbehaviour } = await visit(all.browser, all.server, { expected: { statuses: [404] } })
  await page.goto(`${all.server.url}/products`)
  await page.getByRole('link', { name: 'acme.support' }).click()
  await page.getByRole('link', { name: 'letter-sorter' }).waitFor()
  await page.getByRole('button', { name: 'Upgrade…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Upgrade acme.support' })
  await dialog.getByLabel('Or a manifest').fill(JSON.stringify(manifest('1.1.0', ['letter-sorter', 'letter-writer'])))
  await dialog.getByRole('button', { name: 'Show the plan' }).click()
  await dialog.getByText('1.0.0 → 1.1.0').waitFor()
  const steps = dialog.getByRole('list', { name: 'What will be done' })
  await steps.getByText('Add the agent letter-writer').waitFor()
  await dialog.getByRole('button', { name: 'Upgrade to 1.1.0' }).click()
  await page.getByRole('link', { name: 'letter-writer' }).waitFor()
  expect((await products()).find((one) => one.name === 'acme.support')).toMatchObject({ version: '1.1.0' })

  // An older version, and the one that is there.
  const asked = async (version: string, description: string) => {
    await page.getByRole('button', { name: 'Upgrade…' }).click()
    const { agents, ...rest } = manifest(version, ['letter-sorter', 'letter-writer'])
    await dialog.getByLabel('Or a manifest').fill(JSON.stringify({ ...rest, agents: agents.map((one) => ({ ...one, description })) }))
    await dialog.getByRole('button', { name: 'Show the plan' }).click()
  }
  await asked('1.0.5', 'Works on letters.')
  await dialog.getByRole('button', { name: 'Downgrade to 1.0.5' }).waitFor()
  await steps.getByText('Change the agent letter-sorter').waitFor()
  await steps.getByText('What changes').first().click()
  await steps.getByRole('region', { name: /^Changes of .* of letter-sorter/ }).getByText('Works on letters.').waitFor()
  await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()
  await asked('1.1.0', 'Works on the letters of customers.')
  await expect.poll(() => dialog.getByRole('button', { name: 'Install 1.1.0 again' }).getAttribute('aria-description')).toBe('The project has all of it already.')
  await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()

  await page.getByRole('button', { name: 'Uninstall…' }).click()
  await page.getByRole('dialog').getByText('letter-writer').waitFor()
  await page.getByRole('button', { name: 'Uninstall the product' }).click()
  await page.waitForURL('**/products')
  expect((await products()).map((one) => one.name)).toEqual(['emergent.research'])
  misbehaviour.check()
  await context.close()
})

it('shows the products everywhere', () =>
  showEverywhere(all.browser, all.server, 'products', '/products', (page) => page.getByRole('link', { name: 'emergent.research' }).waitFor()))

it('shows a product everywhere', () =>
  showEverywhere(all.browser, all.server, 'product', '/products/emergent.research', (page) => page.getByRole('link', { name: 'research-assistant' }).waitFor()))

it('shows what uninstalling removes everywhere', () =>
  showEverywhere(all.browser, all.server, 'product-uninstall', '/products/emergent.research?dialog=uninstall', (page) => page.getByRole('dialog').getByText('What will be done').waitFor()))
