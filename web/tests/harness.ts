// A real Chromium on the real program. Everything that a page must not do fails the test that did it: errors in the
// console, violations of the policy, requests to other servers, and failed requests that the test does not expect.
import AxeBuilderSource from 'axe-core'
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { Server, type ServerOptions } from './server'

export { Server } from './server'

const SCREENSHOTS = fileURLToPath(new URL('./screenshots', import.meta.url))
export const WIDTHS = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } }

/** Starts the browser that `scripts/chromium` finds or installs. */
export function launchBrowser(): Promise<Browser> {
  const program = process.env.EMERGENT_TEST_CHROMIUM ?? execFileSync(fileURLToPath(new URL('../../scripts/chromium', import.meta.url)), { encoding: 'utf8' }).trim()
  return chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] })
}

export type Expectations = {
  /** Statuses of failed requests that the test is about, such as 401. */
  statuses?: number[]
}

/** What pages did that they must not do. */
export class Misbehaviour {
  readonly found: string[] = []

  watch(page: Page, url: string, expected: Expectations) {
    const isExpected = (status: number) => expected.statuses?.includes(status) ?? false
    page.on('console', (message) => {
      // The browser writes a line about each failed request; those are counted below.
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) this.found.push(`console: ${message.text()}`)
    })
    page.on('pageerror', (error) => this.found.push(`exception: ${error.message}`))
    page.on('request', (request) => {
      if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:')) this.found.push(`foreign request: ${request.url()}`)
    })
    page.on('response', (response) => {
      if (response.status() >= 400 && !isExpected(response.status())) this.found.push(`${response.status()}: ${response.request().method()} ${response.url()}`)
    })
  }

  check() {
    if (this.found.length > 0) throw new Error(`the page misbehaved:\n${this.found.join('\n')}`)
  }
}

export type Visitor = { context: BrowserContext; page: Page; misbehaviour: Misbehaviour }

type Login = Awaited<ReturnType<BrowserContext['storageState']>>
const logins = new WeakMap<Server, Promise<Login>>()

/** Logs in once for each server with a one-time link: a token may log in 30 times a minute. */
function login(browser: Browser, server: Server): Promise<Login> {
  const known = logins.get(server)
  if (known) return known
  const made = (async () => {
    const context = await browser.newContext()
    await logIn(await context.newPage(), server)
    const state = await context.storageState()
    await context.close()
    return state
  })()
  logins.set(server, made)
  return made
}

/** Opens a window of its own, which is logged in unless `logIn` is false. Its page is empty. */
export async function visit(browser: Browser, server: Server, options: { logIn?: boolean; size?: keyof typeof WIDTHS; theme?: 'light' | 'dark'; expected?: Expectations } = {}): Promise<Visitor> {
  const storageState = (options.logIn ?? true) ? await login(browser, server) : undefined
  const context = await browser.newContext({ viewport: WIDTHS[options.size ?? 'wide'], colorScheme: options.theme ?? 'light', storageState })
  context.setDefaultTimeout(45_000)
  const page = await context.newPage()
  const misbehaviour = new Misbehaviour()
  misbehaviour.watch(page, server.url, options.expected ?? {})
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile ?? ''}`))
  })
  return { context, page, misbehaviour }
}

/** Opens a window that is logged in with a new token, which has these scopes alone. */
export async function visitAs(browser: Browser, server: Server, scopes: string[], { project, ...options }: Omit<Parameters<typeof visit>[2] & object, 'logIn'> & { project?: string } = {}): Promise<Visitor> {
  const { token } = await server.api<{ token: string }>('POST', '/api/tokens', { name: `Test of ${scopes.join(', ')}`, scopes, project })
  const visitor = await visit(browser, server, { ...options, logIn: false })
  const login = await visitor.context.request.post(`${server.url}/api/session`, { data: { token } })
  if (!login.ok()) throw new Error(`the login failed: ${login.status()} ${await login.text()}`)
  return visitor
}

/** Holds back the requests to an address until `release` is called. `arrived` says that there was one, `count` how many. */
export async function held(page: Page, url: string | RegExp) {
  let count = 0
  let release = () => {}
  let arrive = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  const arrived = new Promise<void>((resolve) => (arrive = resolve))
  await page.route(url, async (route) => {
    count++
    arrive()
    await released
    // The page may have given up on it meanwhile.
    await route.continue().catch(() => undefined)
  })
  return { arrived, release, count: () => count }
}

/** Loses the answer to the next request to an address, as a network that fails does: the server has done what it says. */
export async function loseAnswer(page: Page, url: string | RegExp) {
  await page.route(
    url,
    async (route) => {
      const request = route.request()
      // An answer that is a stream begins and does not end.
      const answer = await fetch(request.url(), { method: request.method(), headers: await request.allHeaders(), body: request.postData() })
      await answer.body?.cancel()
      await route.abort('connectionreset')
    },
    { times: 1 },
  )
}

/** Logs in with a one-time link, as `emergent serve` prints it. */
export async function logIn(page: Page, server: Server) {
  const { code } = await server.api<{ code: string }>('POST', '/api/session/codes')
  await page.goto(`${server.url}/login?code=${encodeURIComponent(code)}`)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('heading', { level: 1 }).waitFor()
}

/** The rules of axe whose result depends on the theme. */
export const COLOUR_RULES = ['color-contrast', 'link-in-text-block']
type AxeResult = { violations: { id: string; impact: string | null; help: string; nodes: { target: unknown; html: string }[] }[] }

/** Throws if axe finds a violation on the page. The script is evaluated by the debugger, to which no policy applies. */
export async function expectAccessible(page: Page, where: string, rules?: string[]) {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(AxeBuilderSource.source)
  // While a dialog fades in, its texts have less contrast than a person sees. Animations without an end are left out.
  await page.evaluate(async () => {
    const ending = document.getAnimations().filter((one) => Number.isFinite(Number(one.effect?.getComputedTiming().endTime)))
    await Promise.allSettled(ending.map((one) => one.finished))
  })
  const options = { resultTypes: ['violations'], ...(rules && { runOnly: { type: 'rule', values: rules } }) }
  const result = (await page.evaluate(`axe.run(document, ${JSON.stringify(options)})`)) as AxeResult
  const told = result.violations.map((one) => `${one.id} (${one.impact}): ${one.help}\n${one.nodes.slice(0, 4).map((node) => `    ${JSON.stringify(node.target)} ${node.html.slice(0, 160)}`).join('\n')}`)
  if (told.length > 0) throw new Error(`axe on ${where}:\n${told.join('\n')}`)
}

/** Shows a page in both themes and at both widths, and takes a picture and asks axe each time. */
export async function showEverywhere(browser: Browser, server: Server, name: string, path: string, ready: (page: Page) => Promise<unknown>) {
  mkdirSync(SCREENSHOTS, { recursive: true })
  for (const size of ['wide', 'narrow'] as const) {
    const { width } = WIDTHS[size]
    const { context, page, misbehaviour } = await visit(browser, server, { size })
    await page.goto(server.url + path)
    await ready(page)
    for (const theme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: theme })
      await page.locator(`html[data-theme=${theme}]`).waitFor({ state: 'attached' })
      await page.screenshot({ path: join(SCREENSHOTS, `${name}-${theme}-${width}.png`), animations: 'disabled' })
      // Nothing but the colours differs between the themes.
      await expectAccessible(page, `${name}, ${theme}, ${width} px`, theme === 'dark' ? COLOUR_RULES : undefined)
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    if (overflow > 0) throw new Error(`${name} at ${width} px is ${overflow} px too wide`)
    misbehaviour.check()
    await context.close()
  }
}

/** A server and a browser for the tests of one file. */
export async function startAll(options: ServerOptions = {}): Promise<{ server: Server; browser: Browser; stop: () => Promise<void> }> {
  const [server, browser] = await Promise.all([Server.start(options), launchBrowser()])
  return {
    server,
    browser,
    stop: async () => {
      await browser.close()
      await server.stop()
    },
  }
}
