import { useSyncExternalStore } from 'react'

export type ThemeChoice = 'system' | 'light' | 'dark'

const listeners = new Set<() => void>()
const dark = matchMedia('(prefers-color-scheme: dark)')

/** What the person chose. */
function choice(): ThemeChoice {
  try {
    const stored = localStorage.getItem('theme')
    return stored === 'light' || stored === 'dark' ? stored : 'system'
  } catch {
    return 'system'
  }
}

function apply() {
  const chosen = choice()
  const isDark = chosen === 'dark' || (chosen === 'system' && dark.matches)
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
  listeners.forEach((listener) => listener())
}

dark.addEventListener('change', apply)
// Paper is white.
addEventListener('beforeprint', () => (document.documentElement.dataset.theme = 'light'))
addEventListener('afterprint', apply)

export function setTheme(next: ThemeChoice) {
  try {
    if (next === 'system') localStorage.removeItem('theme')
    else localStorage.setItem('theme', next)
  } catch {
    document.documentElement.dataset.theme = next
  }
  apply()
}

export function useTheme(): ThemeChoice {
  return useSyncExternalStore((listener) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }, choice)
}
