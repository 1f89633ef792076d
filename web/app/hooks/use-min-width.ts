import { useSyncExternalStore } from 'react'

const BREAKPOINTS = { sm: 640, md: 768, lg: 1024, xl: 1280 }
export type Breakpoint = keyof typeof BREAKPOINTS

const queries = Object.fromEntries(Object.entries(BREAKPOINTS).map(([name, width]) => [name, matchMedia(`(min-width: ${width}px)`)])) as Record<Breakpoint, MediaQueryList>

function subscribe(listener: () => void) {
  const lists = Object.values(queries)
  lists.forEach((list) => list.addEventListener('change', listener))
  return () => lists.forEach((list) => list.removeEventListener('change', listener))
}

/** The breakpoints that the window is at least as wide as. */
export function useMinWidths(): Record<Breakpoint, boolean> {
  const bits = useSyncExternalStore(subscribe, () =>
    Object.values(queries)
      .map((list) => (list.matches ? '1' : '0'))
      .join(''),
  )
  return Object.fromEntries(Object.keys(BREAKPOINTS).map((name, index) => [name, bits[index] === '1'])) as Record<Breakpoint, boolean>
}
