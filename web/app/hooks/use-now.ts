import { useSyncExternalStore } from 'react'

// One clock for all relative times: it ticks while somebody shows one.
const listeners = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) clearInterval(timer)
  }
}

/** The time in milliseconds, exact to five seconds. */
export const useNow = () => useSyncExternalStore(subscribe, () => now)
