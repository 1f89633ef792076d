import { useLayoutEffect } from 'react'

/** Whether a key press belongs to a field or a dialog, and not to the page. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)
}

export const isDialogOpen = () => document.querySelector('[role=dialog]:not([data-toast]),[role=alertdialog]:not([data-toast]),[role=menu]') !== null

/**
 * Calls `handler` for a key without modifiers, while nobody types and no dialog is open. It listens before the page is
 * painted, so a key that is pressed as soon as its button can be seen is not lost.
 */
export function useShortcut(key: string, handler: (event: KeyboardEvent) => void, enabled = true) {
  useLayoutEffect(() => {
    if (!enabled) return
    const listen = (event: KeyboardEvent) => {
      if (event.key !== key || event.ctrlKey || event.metaKey || event.altKey) return
      if (isTyping(event) || isDialogOpen()) return
      event.preventDefault()
      handler(event)
    }
    document.addEventListener('keydown', listen)
    return () => document.removeEventListener('keydown', listen)
  }, [key, handler, enabled])
}
