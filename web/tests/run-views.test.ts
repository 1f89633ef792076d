import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAll, visit } from './harness'
import { trigger, untilStatus } from './seed'
import { seedWork } from './seed-work'

let all: Awaited<ReturnType<typeof startAll>>
beforeAll(async () => {
  all = await startAll()
  await seedWork(all.server)
  await untilStatus(all.server, await trigger(all.server, 'contract-auditor', 'Audit the contract.', { maxSteps: 1 }), 'paused')
})
afterAll(() => all?.stop())

it('saves filters by a name, opens them again and removes them', async () => {
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?status=paused&agent=contract-auditor`)
  await page.getByText('1 shown').waitFor()
  await page.getByRole('button', { name: 'Views' }).click()
  await page.getByRole('menuitem', { name: /Save these filters/ }).click()
  await page.getByLabel('Name').fill('Audits to resume')
  await page.keyboard.press('Enter')
  await page.getByText('The view Audits to resume was saved').waitFor()
  await page.goto(`${all.server.url}/runs?status=failed`)
  await page.getByRole('button', { name: 'Views' }).click()
  await page.getByRole('menuitem', { name: /Audits to resume/ }).click()
  await page.waitForURL((url) => url.searchParams.get('status') === 'paused' && url.searchParams.get('agent') === 'contract-auditor')
  await page.getByRole('button', { name: 'Audits to resume' }).click()
  await page.getByRole('menuitem', { name: 'Remove Audits to resume' }).click()
  await page.getByRole('button', { name: 'Views' }).waitFor()
  misbehaviour.check()
  await context.close()
})

it('keeps at most 60 rows in the document, however many runs were read', async () => {
  const runs = 140
  for (let count = 0; count < runs; count += 20) await Promise.all(Array.from({ length: 20 }, (_, index) => trigger(all.server, 'risk-analyst', `Rate vendor ${count + index}.`)))
  const { page, context, misbehaviour } = await visit(all.browser, all.server)
  await page.goto(`${all.server.url}/runs?agent=risk-analyst`)
  await page.locator('[data-row]').first().waitFor()
  // The most rows that ever were in the document count, not those at the end.
  const most = await page.evaluate(async (runs) => {
    const table = document.querySelector<HTMLElement>('[role=table]')!
    let found = document.querySelectorAll('[data-row]').length
    const observer = new MutationObserver(() => (found = Math.max(found, document.querySelectorAll('[data-row]').length)))
    observer.observe(table, { childList: true, subtree: true })
    while (table.getAttribute('aria-rowcount') !== String(runs + 1)) {
      table.parentElement!.scrollTop = table.parentElement!.scrollHeight
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    observer.disconnect()
    return found
  }, runs)
  expect(most).toBeLessThanOrEqual(60)
  misbehaviour.check()
  await context.close()
})
