import { useQueryClient } from '@tanstack/react-query'
import { Outlet, useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { currentProject, setCurrentProject } from '~/api/client'
import { startEvents } from '~/api/events'
import { keys } from '~/api/keys'
import { changeSession, logOut, useSession } from '~/api/session'
import { isTyping, useShortcut } from '~/hooks/use-shortcut'
import type { RawSearch } from '~/hooks/use-url-state'
import { useActions } from '~/util/actions'
import { setTheme } from '~/util/theme'
import { PAGES } from './navigation'
import { Sidebar } from './Sidebar'
import { TopBar } from './TopBar'

const loadPalette = () => import('./Palette')
const Palette = lazy(loadPalette)
const ShortcutsDialog = lazy(() => import('./ShortcutsDialog'))

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

/** `g` and then a letter opens a page; Ctrl+K or ⌘K opens the palette. */
function useKeys(openPalette: () => void) {
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
        openPalette()
        return
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return
      const page = PAGES.find((one) => one.key === event.key)
      if (!page || performance.now() - wentAt.current > 1200) return
      wentAt.current = -Infinity
      event.preventDefault()
      event.stopImmediatePropagation()
      void navigate({ to: page.to })
    }
    document.addEventListener('keydown', listen, { capture: true })
    return () => document.removeEventListener('keydown', listen, { capture: true })
  }, [navigate, openPalette])
}

export function Shell() {
  const session = useSession()
  const client = useQueryClient()
  const { project } = useSearch({ strict: false }) as RawSearch
  const [palette, setPalette] = useState(false)
  const [shortcuts, setShortcuts] = useState(false)
  const openPalette = useCallback(() => setPalette(true), [])
  const openShortcuts = useCallback(() => setShortcuts(true), [])
  useHeadingFocus()
  useKeys(openPalette)
  useShortcut('?', openShortcuts)

  // Requests of this render already name the project; what was read of another one is thrown away.
  if (currentProject() !== project) {
    setCurrentProject(project)
    client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== keys.session[0] && queryKey[0] !== keys.projects[0] })
  }
  const tokenId = session?.tokenId
  useEffect(() => (tokenId ? startEvents(tokenId) : undefined), [tokenId, project])

  // The palette is loaded when nothing else is, so that it is there when its keys are pressed.
  useEffect(() => {
    const timer = setTimeout(() => void loadPalette().catch(() => undefined), 2000)
    return () => clearTimeout(timer)
  }, [])

  const leave = useCallback(() => {
    void logOut().then(() => changeSession(client, null))
  }, [client])
  useActions(
    useMemo(
      () => [
        { id: 'theme-light', label: 'Use the light theme', keywords: 'appearance', run: () => setTheme('light') },
        { id: 'theme-dark', label: 'Use the dark theme', keywords: 'appearance', run: () => setTheme('dark') },
        { id: 'theme-system', label: 'Use the theme of the system', keywords: 'appearance', run: () => setTheme('system') },
        { id: 'shortcuts', label: 'Show keyboard shortcuts', keywords: 'help keys', run: openShortcuts },
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
        <TopBar onPalette={openPalette} onShortcuts={openShortcuts} onLogOut={leave} />
        <main id="main" tabIndex={-1} className="flex min-w-0 flex-1 flex-col px-4 py-5 outline-none lg:px-6">
          <Outlet key={project ?? ''} />
        </main>
      </div>
      <Suspense>
        {shortcuts && <ShortcutsDialog onClose={() => setShortcuts(false)} />}
        {palette && <Palette onClose={() => setPalette(false)} />}
      </Suspense>
    </div>
  )
}
