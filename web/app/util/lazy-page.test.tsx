import { act, Component, type ReactNode, Suspense } from 'react'
import { createRoot, type Root } from 'react-dom/client'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

// A window is reloaded once, so each test has a program of its own.
let lazyPage: typeof import('./lazy-page').lazyPage
const { hasDrafts } = vi.hoisted(() => ({ hasDrafts: vi.fn(() => false) }))
vi.mock('~/hooks/use-draft', () => ({ hasDrafts }))
const keepsDraft = (is: boolean) => hasDrafts.mockReturnValue(is)

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true })
// The script is named, and not loaded.
const { happyDOM } = window as unknown as { happyDOM: { settings: { handleDisabledFileLoadingAsSuccess: boolean } } }
happyDOM.settings.handleDisabledFileLoadingAsSuccess = true

class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {}
  static getDerivedStateFromError = (error: Error) => ({ error })
  override render = () => (this.state.error ? <p role="alert">{this.state.error.message}</p> : this.props.children)
}

const START = '<script type="module" src="/assets/index-1.js"></script>'
let root: Root
let served: () => Promise<Response>
const reload = vi.fn()

beforeEach(async () => {
  vi.resetModules()
  ;({ lazyPage } = await import('./lazy-page'))
  vi.useFakeTimers()
  document.head.innerHTML = START
  document.body.innerHTML = '<div id="root"></div>'
  served = () => Promise.resolve(new Response(START))
  vi.stubGlobal('fetch', () => served())
  vi.spyOn(location, 'reload').mockImplementation(reload)
  vi.spyOn(console, 'error').mockImplementation(() => undefined)
})
afterEach(() => {
  act(() => root.unmount())
  reload.mockReset()
  vi.unstubAllGlobals()
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const page = { Hello: () => <h1>Hello</h1> }
async function shown(Page: () => ReactNode) {
  root = createRoot(document.querySelector('#root')!)
  await act(async () => root.render(<Boundary><Suspense><Page /></Suspense></Boundary>))
  await act(() => vi.advanceTimersByTimeAsync(2_500))
  return document.body.textContent
}

it('shows a page that arrives at a later attempt', async () => {
  const importer = vi.fn().mockRejectedValueOnce(new TypeError('Failed to fetch dynamically imported module')).mockResolvedValue(page)
  expect(await shown(lazyPage(importer, 'Hello'))).toBe('Hello')
  expect(importer).toHaveBeenCalledTimes(2)
})

it('says that the server cannot be reached, and neither reloads nor stores anything', async () => {
  served = () => Promise.reject(new TypeError('Failed to fetch'))
  const Page = lazyPage<'Hello'>(() => Promise.reject(new TypeError('Failed to fetch dynamically imported module: http://localhost/assets/A.js')), 'Hello')
  expect(await shown(Page)).toBe('the server cannot be reached')
  expect(reload).not.toHaveBeenCalled()
  expect(sessionStorage.length).toBe(0)
})

it('reloads when the server has other files', async () => {
  served = () => Promise.resolve(new Response(START.replace('index-1', 'index-2')))
  await shown(lazyPage<'Hello'>(() => Promise.reject(new TypeError('gone')), 'Hello'))
  expect(reload).toHaveBeenCalledOnce()
})

it('does not reload for a page that was only pointed at, or while something is written', async () => {
  served = () => Promise.resolve(new Response(START.replace('index-1', 'index-2')))
  const Page = lazyPage<'Hello'>(() => Promise.reject(new TypeError('gone')), 'Hello')
  const preloaded = Page.preload!()
  await vi.advanceTimersByTimeAsync(2_500)
  await preloaded
  expect(reload).not.toHaveBeenCalled()
  keepsDraft(true)
  expect(await shown(Page)).toContain('replaced by another version')
  expect(reload).not.toHaveBeenCalled()
  keepsDraft(false)
})

it('says so when the server of the same files does not send it', async () => {
  expect(await shown(lazyPage<'Hello'>(() => Promise.reject(new TypeError('gone')), 'Hello'))).toBe('the server did not send the code of this page')
  expect(reload).not.toHaveBeenCalled()
})

it('loads again for whoever opens the page later', async () => {
  const importer = vi.fn().mockRejectedValueOnce(1).mockRejectedValueOnce(2).mockRejectedValueOnce(3).mockResolvedValue(page)
  const Page = lazyPage<'Hello'>(importer, 'Hello')
  expect(await shown(Page)).toContain('did not send')
  act(() => root.unmount())
  vi.advanceTimersByTime(10_000)
  expect(await shown(Page)).toBe('Hello')
})
