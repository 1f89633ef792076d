// What this browser knows of the guide on the overview, for each project. The server knows the rest.
import { useSyncExternalStore } from 'react'
import { currentProject } from '~/api/client'

export type FirstSteps = {
  /** The guide was shown while the project was new, so it stays until it is done. */
  begun?: true
  /** The graph was opened. */
  looked?: true
  /** Somebody dismissed the guide, or did all of it. */
  closed?: true
}

const NONE: FirstSteps = {}
const keyOf = () => `emergent-first-steps-${currentProject() ?? ''}`
const listeners = new Set<() => void>()
/** What was read last of each key. It is all there is if the browser refuses to store anything. */
const known = new Map<string, { text: string | null; steps: FirstSteps }>()

function parse(text: string | null): FirstSteps {
  const names = (text ?? '').split(' ')
  return { ...(names.includes('begun') && { begun: true }), ...(names.includes('looked') && { looked: true }), ...(names.includes('closed') && { closed: true }) }
}

export function readFirstSteps(): FirstSteps {
  const key = keyOf()
  const last = known.get(key)
  try {
    const text = localStorage.getItem(key)
    if (last && last.text === text) return last.steps
    const steps = parse(text)
    known.set(key, { text, steps })
    return steps
  } catch {
    return last?.steps ?? NONE
  }
}

/** Remembers what happened; `false` forgets it. */
export function noteFirstSteps(change: { [Name in keyof FirstSteps]: boolean }) {
  const before: Record<string, true> = { ...readFirstSteps() }
  const names = Object.keys({ ...before, ...change }).filter((name) => change[name as keyof FirstSteps] ?? before[name])
  if (names.length === Object.keys(before).length && names.every((name) => before[name])) return
  const text = names.join(' ')
  try {
    localStorage.setItem(keyOf(), text)
    known.delete(keyOf())
  } catch {
    known.set(keyOf(), { text, steps: parse(text) })
  }
  listeners.forEach((listener) => listener())
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  window.addEventListener('storage', listener)
  return () => {
    listeners.delete(listener)
    window.removeEventListener('storage', listener)
  }
}
export const useFirstSteps = () => useSyncExternalStore(subscribe, readFirstSteps)
