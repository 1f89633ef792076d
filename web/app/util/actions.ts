// The actions of the palette. Pages add theirs while they are shown.
import { useEffect, useSyncExternalStore } from 'react'

export type Action = {
  id: string
  label: string
  /** The heading below which the action is listed. */
  group?: string
  /** Further words that find it. */
  keywords?: string
  /** Why the button of the page refuses it, as there. The palette then says so to whoever searches for it. */
  disabledReason?: string | undefined
  /** It leaves a dialog that is open, and what was typed in it, as they are. */
  keepsDialog?: true
  run: () => void
}

let registered: readonly Action[] = []
const listeners = new Set<() => void>()

function update(next: readonly Action[]) {
  registered = next
  listeners.forEach((listener) => listener())
}

/** Adds actions and returns how to remove them. */
export function registerActions(actions: readonly Action[]): () => void {
  update([...registered, ...actions])
  return () => update(registered.filter((action) => !actions.includes(action)))
}

/** Adds actions while a component is shown. Pass a value that is made with `useMemo`. */
export function useActions(actions: readonly Action[]) {
  useEffect(() => registerActions(actions), [actions])
}

/** Whether the page that is shown has an action of its own with this id, even if its button refuses it. */
export const isRegistered = (id: string) => registered.some((action) => action.id === id)

export function useRegisteredActions(): readonly Action[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => registered,
  )
}
