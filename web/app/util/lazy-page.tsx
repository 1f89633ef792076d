import { type ComponentType, type ReactNode, use } from 'react'
import { ApiError } from '~/api/errors'
import { servedVersion } from '~/api/served-version'
import { importAgain, isWritten, OtherFiles } from './load-parts'

/** A failure is shown for as long as it takes to draw it; whoever opens the page later causes another attempt. */
const FAILED_FOR_MS = 3_000
/** A page that was loaded again just now would be loaded again for ever. */
const isReloaded = () => (performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming | undefined)?.type === 'reload' && performance.now() < 20_000

/** Why a page could not be loaded. */
async function whyMissing(): Promise<Error> {
  const version = await servedVersion()
  if (version === 'unreachable') return ApiError.unreachable()
  return version === 'other' ? new OtherFiles() : new Error('the server did not send the code of this page')
}

const NEVER = new Promise<never>(() => {})
let isReloading = false

/** Loads the files of another version for a page that was opened, unless that would lose what somebody wrote. Returns whether it does. */
function reloads(): boolean {
  if (isReloaded() || isWritten()) return false
  if (!isReloading) location.reload()
  isReloading = true
  return true
}

/** `preload` never fails: the page itself throws when it is drawn. */
export type LazyPage = (() => ReactNode) & { preload?: () => Promise<void>; loadIdle: () => Promise<void> }

/**
 * A page that is a file of its own. The one of the router (`lazyRouteComponent`) answers a failed import with a reload,
 * which replaces the whole program by an error of the browser while the server is away.
 */
export function lazyPage<K extends string>(importer: () => Promise<Record<K, ComponentType>>, name: K): LazyPage {
  let Loaded: ComponentType | undefined
  let failure: { error: Error; at: number } | undefined
  let loading: Promise<void> | undefined

  const keep = (module: Record<K, ComponentType>) => {
    Loaded = module[name]
    // Nothing is left to load, so a navigation does not wait for it.
    delete Page.preload
  }
  const load = () =>
    (loading ??= (async () => {
      failure = undefined
      try {
        keep(await importAgain(importer))
      } catch {
        failure = { error: await whyMissing(), at: performance.now() }
      } finally {
        loading = undefined
      }
    })())

  const Page: LazyPage = () => {
    if (!Loaded && failure && performance.now() - failure.at < FAILED_FOR_MS) {
      if (failure.error instanceof OtherFiles && reloads()) use(NEVER)
      throw failure.error
    }
    if (!Loaded) use(load())
    return Loaded ? <Loaded /> : null
  }
  Page.preload = load
  Page.loadIdle = async () => {
    if (!Loaded) await importer().then(keep, () => undefined)
  }
  pages.push(Page)
  return Page
}

const pages: LazyPage[] = []
const idle = () => new Promise<void>((resolve) => (typeof requestIdleCallback === 'function' ? requestIdleCallback(() => resolve()) : setTimeout(resolve, 200)))

/** Loads all pages, one at a time, while nothing else is to do: then they open at once, also when the server is away. */
export async function loadPagesWhenIdle(signal: AbortSignal) {
  if ((navigator as { connection?: { saveData?: boolean } }).connection?.saveData) return
  for (const page of pages) {
    await idle()
    if (signal.aborted) return
    await page.loadIdle()
  }
}
