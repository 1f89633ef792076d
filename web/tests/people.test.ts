// People at one inbox: with the keyboard alone, and two at the same time.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { openDesk } from './desk'
import { visit } from './harness'
import { untilStatus } from './seed'
import { ask, type Item } from './seed-inbox'

const desk = openDesk()

type Stop = { name: string; isVisible: boolean; isAfter: boolean }

/** Presses Tab and says where the focus is, whether it can be seen, and whether it follows the last place. */
async function tab(page: Page): Promise<Stop> {
  await page.evaluate(() => ((window as { before?: Element | null }).before = document.activeElement))
  await page.keyboard.press('Tab')
  return page.evaluate(() => {
    const { before } = window as { before?: Element | null }
    const element = document.activeElement as HTMLElement
    element.scrollIntoView({ block: 'nearest' })
    const style = getComputedStyle(element)
    const box = element.getBoundingClientRect()
    const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
    const isOnTop = top !== null && (element.contains(top) || top.contains(element))
    return {
      name: (element.getAttribute('aria-label') ?? (element as HTMLInputElement).labels?.[0]?.textContent ?? element.textContent ?? '').trim(),
      isVisible: element !== document.body && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.height > 0 && isOnTop,
      isAfter: !before || before === document.body || Boolean(before.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING),
    }
  })
}

/** Presses Tab until the focus is on something with this name. Every place on the way has to be visible and in order. */
async function tabTo(page: Page, name: RegExp): Promise<string[]> {
  const names: string[] = []
  for (let count = 0; count < 80; count++) {
    const stop = await tab(page)
    names.push(stop.name)
    expect(stop, `after ${names.join(' → ')}`).toMatchObject({ isVisible: true, isAfter: true })
    if (name.test(stop.name)) return names
  }
  throw new Error(`nothing has the name ${name}: ${names.join(' → ')}`)
}

it('leads from the login to a decided approval with the keyboard alone', async () => {
  const item = await ask(desk.server, 'payments-clerk', 'Release the payment of invoice NW-2026-04.')
  const { page, context, misbehaviour } = await visit(desk.browser, desk.server, { logIn: false, expected: { statuses: [401] } })
  await page.addInitScript(() => {
    const seen: string[] = []
    Object.assign(window, { pointerEvents: seen })
    // A click that a key caused has no pointer. A movement says nothing: Chromium reports one when the page moves below a pointer at rest.
    for (const type of ['pointerdown', 'mousedown', 'touchstart', 'click']) {
      addEventListener(type, (event) => (type !== 'click' || (event as MouseEvent).detail > 0) && seen.push(type), { capture: true })
    }
  })
  await page.goto(desk.server.url)
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  // The field has the focus already.
  await page.waitForFunction(() => document.activeElement?.getAttribute('name') === 'token')
  await page.keyboard.type(desk.server.token)
  await tabTo(page, /^Log in$/)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()

  const way = await tabTo(page, /^Inbox/)
  expect(way[0]).toBe('Skip to the content')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Inbox' }).waitFor()
  await page.getByRole('article', { name: 'The request' }).getByText('Invoice/nw-2026-04').first().waitFor()
  await page.waitForFunction(() => document.activeElement?.tagName === 'H1')
  const stops = await tabTo(page, /^Approve/)
  // First the filters, then the list, then the request.
  expect(stops.slice(0, 2)).toEqual(['Status', 'Kind'])
  await page.keyboard.press('Enter')
  await page.getByText('The call was approved.').waitFor()
  expect((await desk.read(item.id)).decision?.decision).toBe('approve')
  await untilStatus(desk.server, item.runId!, 'completed')
  // The focus is still on the page, not lost with the button.
  expect(await page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true)
  expect(await page.evaluate(() => (window as unknown as { pointerEvents: string[] }).pointerEvents)).toEqual([])
  misbehaviour.check()
  await context.close()
})

it('jumps over the navigation with the first key', async () => {
  const { page, context } = await visit(desk.browser, desk.server)
  await page.goto(`${desk.server.url}/runs`)
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor()
  expect((await tab(page)).name).toBe('Skip to the content')
  await page.keyboard.press('Enter')
  await tab(page)
  expect(await page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true)
  await context.close()
})

async function asDana(item: Item) {
  const dana = await desk.server.api<{ token: string }>('POST', '/api/tokens', { name: 'Dana Whitfield', scopes: ['approvals:decide', 'admin:read', 'agents:read', 'graph:read'] })
  const visitor = await visit(desk.browser, desk.server, { logIn: false, expected: { statuses: [401, 404, 409] } })
  await visitor.page.goto(`${desk.server.url}/inbox?item=${item.id}`)
  await visitor.page.getByLabel('Token').fill(dana.token)
  await visitor.page.keyboard.press('Enter')
  await approve(visitor.page).waitFor()
  return visitor
}
const approve = (page: Page) => page.getByRole('button', { name: 'Approve', exact: true })

it('shows one person at once what another one decided, and why', async () => {
  const item = await ask(desk.server, 'vendor-cleanup', 'Remove vendors without orders.')
  const one = await desk.open(item.id, [404])
  const two = await asDana(item)
  await two.page.getByRole('button', { name: 'Deny', exact: true }).click()
  await two.page.getByLabel('Reason').fill('There is an open claim until March.')
  await two.page.getByRole('button', { name: 'Deny the call' }).click()
  await two.page.getByText('The call was denied.').waitFor()
  const article = one.page.getByRole('article', { name: 'The request' })
  await article.getByText('Dana Whitfield denied it').waitFor()
  await article.getByText('There is an open claim until March.').waitFor()
  expect(await approve(one.page).count()).toBe(0)
  for (const { misbehaviour, context } of [one, two]) {
    misbehaviour.check()
    await context.close()
  }
})

it('tells the second of two people who decided first, and what', async () => {
  const item = await ask(desk.server, 'vendor-cleanup', 'Remove vendors without orders.')
  const one = await visit(desk.browser, desk.server, { expected: { statuses: [404, 409] } })
  // This window hears no event: it waits for its turn to hold the stream, as behind a tab that hangs.
  await one.page.addInitScript(() => Object.defineProperty(navigator, 'locks', { value: { request: () => new Promise(() => {}) } }))
  await one.page.goto(`${desk.server.url}/inbox?item=${item.id}`)
  await approve(one.page).waitFor()
  const two = await asDana(item)
  await approve(two.page).click()
  await two.page.getByText('The call was approved.').waitFor()
  expect((await desk.read(item.id)).status).not.toBe('pending')
  await approve(one.page).click()
  const alert = one.page.getByRole('alert')
  await alert.getByText('Dana Whitfield approved it first').waitFor()
  await alert.getByText('Your decision changed nothing.').waitFor()
  // Its effect happened once, and the page goes on.
  await untilStatus(desk.server, item.runId!, 'completed')
  expect((await desk.read(item.id)).decision?.decision).toBe('approve')
  await one.page.keyboard.press('g')
  await one.page.keyboard.press('r')
  await one.page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor()
  for (const { misbehaviour, context } of [one, two]) {
    misbehaviour.check()
    await context.close()
  }
})
