// Asks Lighthouse about the most important pages: at least 95 of 100 in each category. See scripts/lighthouse.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type BrowserContext, chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { logIn, Server } from './harness'
import { seed } from './seed'

const LEAST = 95
const PORT = 9333
/** On a busy machine only the speed cannot be judged: `LIGHTHOUSE_CATEGORIES=accessibility,best-practices,seo`. */
const CATEGORIES = (process.env.LIGHTHOUSE_CATEGORIES ?? 'performance,accessibility,best-practices,seo').split(',')
const REPORTS = fileURLToPath(new URL('./screenshots/lighthouse', import.meta.url))

type Audit = { id: string; title: string; score: number | null; displayValue?: string; details?: { items?: unknown[] } }
type Report = { categories: Record<string, { title: string; score: number | null; auditRefs: { id: string; weight: number }[] }>; audits: Record<string, Audit> }
type Lighthouse = { default: (url: string, flags: object, config?: object) => Promise<{ lhr: Report; report: string } | undefined>; desktopConfig: object }

let server: Server
let context: BrowserContext
let profile: string
let lighthouse: Lighthouse
let seeded: Awaited<ReturnType<typeof seed>>

beforeAll(async () => {
  const folder = process.env.EMERGENT_LIGHTHOUSE
  if (!folder) throw new Error('run it with scripts/lighthouse, which installs the package')
  lighthouse = (await import(/* @vite-ignore */ pathToFileURL(createRequire(join(folder, 'x.js')).resolve('lighthouse')).href)) as Lighthouse
  mkdirSync(REPORTS, { recursive: true })
  profile = mkdtempSync(join(tmpdir(), 'emergent-lighthouse-'))
  server = await Server.start()
  seeded = await seed(server)
  context = await chromium.launchPersistentContext(profile, { executablePath: process.env.EMERGENT_TEST_CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', `--remote-debugging-port=${PORT}`] })
  await logIn(await context.newPage(), server)
})
afterAll(async () => {
  await context?.close()
  await server?.stop()
  if (profile) rmSync(profile, { recursive: true, force: true })
})

async function audit(name: string, path: string, form: 'desktop' | 'mobile') {
  // The login is a cookie, which has to outlive the start of an audit.
  const flags = { port: PORT, output: 'html', logLevel: 'error', disableStorageReset: true, onlyCategories: CATEGORIES }
  const result = await lighthouse.default(server.url + path, flags, form === 'desktop' ? lighthouse.desktopConfig : undefined)
  if (!result) throw new Error('Lighthouse returned nothing')
  writeFileSync(join(REPORTS, `${name}-${form}.html`), result.report)
  const { categories, audits } = result.lhr
  const scores = Object.fromEntries(Object.entries(categories).map(([id, one]) => [id, Math.round((one.score ?? 0) * 100)]))
  console.log(`${name}, ${form}: ${Object.entries(scores).map(([id, score]) => `${id} ${score}`).join(', ')}`)
  const lost = Object.values(categories).flatMap((one) => one.auditRefs.filter((ref) => ref.weight > 0 && (audits[ref.id]?.score ?? 1) < 0.9).map((ref) => `${ref.id} ${audits[ref.id]?.score} ${audits[ref.id]?.displayValue ?? ''} ${JSON.stringify(audits[ref.id]?.details?.items ?? []).slice(0, 400)}`))
  if (lost.length > 0) console.log(lost.join('\n'))
  for (const [id, score] of Object.entries(scores)) expect.soft(score, `${id} of ${name}, ${form}`).toBeGreaterThanOrEqual(LEAST)
}

const forms = (process.env.LIGHTHOUSE_FORMS ?? 'desktop,mobile').split(',') as ('desktop' | 'mobile')[]
for (const form of forms) {
  it(`rates the overview, ${form}`, () => audit('overview', '/', form))
  it(`rates the runs, ${form}`, () => audit('runs', '/runs', form))
  it(`rates a run, ${form}`, () => audit('run', `/runs/${seeded.completed[0]}`, form))
  it(`rates the inbox, ${form}`, () => audit('inbox', '/inbox', form))
  it(`rates the graph, ${form}`, () => audit('graph', '/graph', form))
  it(`rates the chat, ${form}`, () => audit('chat', '/chat', form))
}
