import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Outlet, useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import { type ComponentType, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { api, currentProject, setCurrentProject, unwrap } from '~/api/client'
import { isMissing } from '~/api/errors'
import { startEvents } from '~/api/events'
import { keys } from '~/api/keys'
import { servedVersion } from '~/api/served-version'
import { logOut, useSession } from '~/api/session'
import { keepDraftsOf } from '~/hooks/use-draft'
import { collectKey, startTyping, takeTyped } from '~/hooks/typed-ahead'
import { areShortcutsHeld, isDialogOpen, isTyping, useShortcut } from '~/hooks/use-shortcut'
import type { RawSearch } from '~/hooks/use-url-state'
import { toast } from '~/ui/toast'
import { useActions } from '~/util/actions'
import { loadPagesWhenIdle } from '~/util/lazy-page'
import { lazyPart } from '~/util/lazy-part'
import { REPLACED } from '~/util/load-parts'
import { setTheme } from '~/util/theme'
import { NoProject } from './Failures'
import { LeaveGuard } from './LeaveGuard'
import { PAGES } from './navigation'
import { Sidebar } from './Sidebar'
import { TopBar } from './TopBar'

type PaletteProps = { onClose: () => void }
let Palette: ComponentType<PaletteProps> | undefined
const loadPalette = () => import('./Palette').then((module) => (Palette = module.default))
/** Keys belong to the palette while it is loaded. For longer than this, they do not. */
const PALETTE_MS = 10_000
const inTime = () => Promise.race([loadPalette(), new Promise<never>((_, fail) => setTimeout(fail, PALETTE_MS))])
const ShortcutsDialog = lazyPart(() => import('./ShortcutsDialog').then((module) => module.default))

/** Moves the focus to the heading of a new page. */
function useHeadingFocus() {
  const router = useRouter()
  useEffect(
    () =>
      router.subscribe('onRendered', ({ fromLocation, toLocation }) => {
        if (!fromLocation || fromLocation.pathname === toLocation.pathname) return
        // A page that arrives late does not take the focus from a dialog that was opened meanwhile.
        if (document.activeElement?.closest('[role=dialog][data-open]')) return
        document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
      }),
    [router],
  )
}

/** The palette. What is typed before its field is there is collected for it. */
function usePalette() {
  const [isOpen, setOpen] = useState(false)
  const wanted = useRef(false)
  const close = useCallback(() => {
    wanted.current = false
    takeTyped()
    setOpen(false)
  }, [])
  const open = useCallback(() => {
    if (wanted.current) return
    wanted.current = true
    startTyping()
    // Drawn before the next key press, if its code is there.
    const show = () => flushSync(() => setOpen(true))
    if (Palette) return show()
    inTime().then(
      () => wanted.current && show(),
      async () => {
        close()
        const version = await servedVersion()
        toast('The palette could not be loaded.', { kind: 'failed', description: version === 'other' ? REPLACED : version === 'same' ? 'The server did not send its code. Try again.' : 'The server cannot be reached. Try again when it can.' })
      },
    )
  }, [close])
  // Whoever logs out while it is loaded has the keys again.
  useEffect(
    () => () => {
      wanted.current = false
      takeTyped()
    },
    [],
  )
  return { isOpen, open, close }
}

/** `g` and then a letter opens a page; Ctrl+K or ⌘K opens the palette. */
function useKeys(openPalette: () => void, closePalette: () => void) {
  const navigate = useNavigate()
  // Nobody pressed it yet. Zero would be the moment when the page was opened, and a letter soon after it would lead away.
  const wentAt = useRef(-Infinity)
  useShortcut(
    'g',
    useCallback(() => {
      wentAt.current = performance.now()
    }, []),
  )
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        wentAt.current = -Infinity
        openPalette()
        return
      }
      if (collectKey(event, closePalette)) return
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || areShortcutsHeld() || isDialogOpen()) return
      const page = PAGES.find((one) => one.key === event.key)
      if (!page || performance.now() - wentAt.current > 1200) return
      wentAt.current = -Infinity
      event.preventDefault()
      event.stopImmediatePropagation()
      void navigate({ to: page.to })
    }
    document.addEventListener('keydown', listen, { capture: true })
    return () => document.removeEventListener('keydown', listen, { capture: true })
  }, [navigate, openPalette, closePalette])
}

export function Shell() {
  const session = useSession()
  const client = useQueryClient()
  const { project } = useSearch({ strict: false }) as RawSearch
  const palette = usePalette()
  const [shortcuts, setShortcuts] = useState(false)
  const openShortcuts = useCallback(() => setShortcuts(true), [])
  useHeadingFocus()
  useKeys(palette.open, palette.close)
  useShortcut('?', openShortcuts)

  // Requests of this render already name the project; what was read of another one is thrown away.
  if (currentProject() !== project) {
    setCurrentProject(project)
    client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== keys.session[0] && queryKey[0] !== keys.projects[0] })
  }
  // Every request that names an unknown project is refused, so one says it for the whole page.
  const tokenId = session?.tokenId
  const named = useQuery({ queryKey: [...keys.projects, 'named', project, tokenId], enabled: project !== undefined && tokenId !== undefined, retry: false, staleTime: Infinity, queryFn: () => unwrap(api.GET('/api/session')) })
  const isUnknown = isMissing(named.error)
  keepDraftsOf(session?.isOver ? undefined : tokenId)
  useEffect(() => (tokenId ? startEvents(tokenId) : undefined), [tokenId, project])

  // The palette is loaded when nothing else is, so that it is there when its keys are pressed; then the pages.
  useEffect(() => {
    const controller = new AbortController()
    const palette = setTimeout(() => void loadPalette().catch(() => undefined), 2000)
    const pages = setTimeout(() => void loadPagesWhenIdle(controller.signal), 4000)
    return () => {
      controller.abort()
      clearTimeout(palette)
      clearTimeout(pages)
    }
  }, [])

  const leave = useCallback(() => {
    void logOut(client)
  }, [client])
  useActions(
    useMemo(
      () => [
        { id: 'theme-light', label: 'Use the light theme', keywords: 'appearance', keepsDialog: true, run: () => setTheme('light') },
        { id: 'theme-dark', label: 'Use the dark theme', keywords: 'appearance', keepsDialog: true, run: () => setTheme('dark') },
        { id: 'theme-system', label: 'Use the theme of the system', keywords: 'appearance', keepsDialog: true, run: () => setTheme('system') },
        { id: 'shortcuts', label: 'Show keyboard shortcuts', keywords: 'help keys', keepsDialog: true, run: openShortcuts },
        { id: 'log-out', label: 'Log out', run: leave },
      ],
      [leave, openShortcuts],
    ),
  )

  return (
    <div className="flex min-h-screen">
      <a href="#main" className="sr-only z-60 rounded-md bg-accent px-3 py-1.5 font-medium text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2">
        Skip to the content
      </a>
      <div className="sticky top-0 hidden h-screen w-56 shrink-0 border-r border-line lg:block">
        <Sidebar />
      </div>
      <div className="flex min-w-0 flex-1 flex-col">
        <TopBar onPalette={palette.open} onShortcuts={openShortcuts} onLogOut={leave} />
        <main id="main" tabIndex={-1} className="flex min-w-0 flex-1 flex-col px-4 py-5 outline-none lg:px-6">
          {isUnknown && project ? <NoProject project={project} isBound={Boolean(session?.project)} /> : <Outlet key={project ?? ''} />}
        </main>
      </div>
      {shortcuts && <ShortcutsDialog onClose={() => setShortcuts(false)} />}
      <LeaveGuard />
      {palette.isOpen && Palette && <Palette onClose={palette.close} />}
    </div>
  )
}
