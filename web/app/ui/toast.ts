// Messages about what happened. The region that shows them is loaded with the first one.
import { useSyncExternalStore } from 'react'

export type ToastKind = 'done' | 'failed' | 'info'
export type ToastMessage = { title: string; description: string | undefined; kind: ToastKind }

let show: ((message: ToastMessage) => void) | undefined
const early: ToastMessage[] = []
const listeners = new Set<() => void>()

/** Whether there was a message, so that the region is needed. */
export function useHasToasts(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => show !== undefined || early.length > 0,
  )
}

/** Tells of something that happened. It is read to screen readers, and never the only place for an error. */
export function toast(title: string, options: { description?: string; kind?: ToastKind } = {}) {
  const message = { title, description: options.description, kind: options.kind ?? 'done' }
  if (show) show(message)
  else {
    early.push(message)
    listeners.forEach((listener) => listener())
  }
}

/** Sets who shows messages, and hands over those that came before. */
export function showToastsWith(next: (message: ToastMessage) => void) {
  show = next
  early.splice(0).forEach(next)
}
