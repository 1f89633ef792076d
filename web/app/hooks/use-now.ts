import { useSyncExternalStore } from 'react'

// One clock for all times on the page: it ticks while somebody shows one, and each second while something is at work.
const LIVE_MS = 1_000
const IDLE_MS = 5_000
const listeners = new Set<() => void>()
let live = 0
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined
let period: number | undefined

function tick() {
  now = Date.now()
  listeners.forEach((tell) => tell())
}

function setPeriod() {
  const next = listeners.size === 0 ? undefined : live > 0 ? LIVE_MS : IDLE_MS
  if (next === period) return
  clearInterval(timer)
  if (period === undefined) now = Date.now()
  if (next) timer = setInterval(tick, next)
  period = next
}

function subscribe(listener: () => void) {
  listeners.add(listener)
  setPeriod()
  return () => {
    listeners.delete(listener)
    setPeriod()
  }
}

function subscribeLive(listener: () => void) {
  live++
  const end = subscribe(listener)
  return () => {
    live--
    end()
  }
}

/** What `read` makes of the time. Only another value renders again, so a text is better than a number. `isLive`: something is at work. */
export const useClock = <T extends string | number>(read: (now: number) => T, isLive: boolean) => useSyncExternalStore(isLive ? subscribeLive : subscribe, () => read(now))
