// What was typed and is not saved, and the question before it is left behind.
import { useEffect, useSyncExternalStore } from 'react'

/** A dialog is left by Back and the palette; a form of a page by every way to another page. */
type Kind = 'dialog' | 'page'

const unsaved = new Set<{ kind: Kind }>()
let question: ((isDiscarded: boolean) => void) | undefined
const listeners = new Set<() => void>()
const tell = () => listeners.forEach((listener) => listener())
const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** Says whether something has text that would be lost with it. */
export function useUnsaved(kind: Kind, isUnsaved: boolean) {
  useEffect(() => {
    if (!isUnsaved) return
    const entry = { kind }
    unsaved.add(entry)
    tell()
    return () => {
      unsaved.delete(entry)
      tell()
    }
  }, [kind, isUnsaved])
}

export const hasUnsaved = (kind: Kind) => [...unsaved].some((entry) => entry.kind === kind)
export const useHasUnsaved = () => useSyncExternalStore(subscribe, () => unsaved.size > 0)

/** Asks whether to discard what was typed. A newer question is the answer "no" to the one before it. */
export function askToDiscard(): Promise<boolean> {
  question?.(false)
  return new Promise((resolve) => {
    question = (isDiscarded) => {
      question = undefined
      tell()
      resolve(isDiscarded)
    }
    tell()
  })
}

/** The question that waits for its answer. */
export const useQuestion = () => useSyncExternalStore(subscribe, () => question)
