import { Keyboard, LogOut, Menu as MenuIcon, Monitor, Moon, Search, Sun, User } from 'lucide-react'
import { useState } from 'react'
import { useConnectionState } from '~/api/events'
import { useSession } from '~/api/session'
import { IconButton } from '~/ui/Button'
import { Menu } from '~/ui/Menu'
import { Tooltip } from '~/ui/Tooltip'
import { classes } from '~/util/classes'
import { lazyPart } from '~/util/lazy-part'
import { setTheme, type ThemeChoice, useTheme } from '~/util/theme'

const THEMES: [ThemeChoice, string, typeof Sun][] = [
  ['system', 'As the system', Monitor],
  ['light', 'Light', Sun],
  ['dark', 'Dark', Moon],
]

function ThemeMenu() {
  const theme = useTheme()
  const Icon = THEMES.find(([name]) => name === theme)?.[2] ?? Monitor
  return (
    <Menu
      label="Theme"
      trigger={
        <button type="button" aria-label="Theme" className="grid size-8 place-items-center rounded-md text-text-2 hover:bg-hover hover:text-text">
          <Icon aria-hidden size={16} />
        </button>
      }
      items={THEMES.map(([name, label, ThemeIcon]) => ({ label, icon: <ThemeIcon aria-hidden size={14} />, checked: name === theme, onSelect: () => setTheme(name) }))}
    />
  )
}

const STATES = {
  live: ['Live', 'bg-ok-fill', 'Changes appear as they happen.'],
  connecting: ['Connecting', 'bg-warn-fill animate-breathe', 'The stream of events is being opened.'],
  reconnecting: ['Reconnecting', 'bg-warn-fill animate-breathe', 'The connection was lost. Nothing is missed: the stream continues where it ended.'],
  ended: ['Not live', 'bg-idle-fill', 'There is no stream of events. Reload the page to see changes.'],
} as const

function Connection() {
  const [label, dot, text] = STATES[useConnectionState()]
  return (
    <Tooltip text={text} side="bottom">
      <span role="status" className="flex h-8 items-center gap-1.5 rounded-md px-2 text-xs font-medium text-text-2">
        <span aria-hidden className={classes('size-2 rounded-full', dot)} />
        {label}
      </span>
    </Tooltip>
  )
}

const Drawer = lazyPart(() => import('./Drawer').then((module) => module.default))

/** The button that opens the navigation where the window is too narrow for the sidebar. */
function DrawerButton() {
  const [open, setOpen] = useState(false)
  return (
    <>
      <button type="button" aria-label="Open the navigation" aria-haspopup="dialog" onClick={() => setOpen(true)} className="grid size-8 place-items-center rounded-md text-text-2 hover:bg-hover lg:hidden">
        <MenuIcon aria-hidden size={18} />
      </button>
      {open && <Drawer onClose={() => setOpen(false)} />}
    </>
  )
}

export function TopBar({ onPalette, onShortcuts, onLogOut }: { onPalette: () => void; onShortcuts: () => void; onLogOut: () => void }) {
  const session = useSession()
  const command = /Mac|iP/.test(navigator.platform) ? '⌘K' : 'Ctrl K'
  return (
    <header className="sticky top-0 z-20 flex h-12 items-center gap-1 border-b border-line bg-bg px-3 lg:px-6">
      <DrawerButton />
      <button type="button" onClick={onPalette} className="flex h-8 min-w-0 flex-1 items-center gap-2 rounded-md border border-line bg-surface px-2.5 text-text-2 hover:border-line-strong sm:max-w-80">
        <Search aria-hidden size={14} />
        <span className="truncate">Search or run a command</span>
        <kbd className="ml-auto hidden rounded-sm bg-sunken px-1 font-sans text-2xs text-text-2 sm:block">{command}</kbd>
      </button>
      <div className="ml-auto flex items-center gap-1">
        <Connection />
        <span className="hidden sm:block">
          <IconButton label="Keyboard shortcuts" onClick={onShortcuts}>
            <Keyboard aria-hidden size={16} />
          </IconButton>
        </span>
        <ThemeMenu />
        <Menu
          label="Login"
          trigger={
            <button type="button" aria-label={`Logged in as ${session?.tokenName ?? ''}`} className="grid size-8 place-items-center rounded-md text-text-2 hover:bg-hover hover:text-text">
              <User aria-hidden size={16} />
            </button>
          }
          items={[{ label: <>Log out <span className="text-text-3">{session?.tokenName}</span></>, icon: <LogOut aria-hidden size={14} />, onSelect: onLogOut }]}
        />
      </div>
    </header>
  )
}
