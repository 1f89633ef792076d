import { useLayoutEffect } from 'react'
import { isOpening } from './typed-ahead'

/** Whether a key press belongs to a field or a dialog, and not to the page. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)
}

/** Whether keys belong to a dialog or a menu, also to the palette that is about to open. */
export const isDialogOpen = () => isOpening() || document.querySelector('[role=dialog],[role=alertdialog],[role=menu]') !== null

// A form that somebody wrote into was closed by something else: the rest of the sentence must not act on the page.
let isHeld = false

/** Ignores keys of the page until the person presses the pointer or Tab, which is no part of a sentence. */
export function holdShortcuts() {
  if (isHeld) return
  isHeld = true
  const controller = new AbortController()
  const release = (event: Event) => {
    if (event instanceof KeyboardEvent && event.key !== 'Tab') return
    isHeld = false
    controller.abort()
  }
  for (const type of ['pointerdown', 'keydown']) document.addEventListener(type, release, { capture: true, signal: controller.signal })
}

export const areShortcutsHeld = () => isHeld

/**
 * Calls `handler` for a key without modifiers, while nobody types and no dialog is open. It listens before the page is
 * painted, so a key that is pressed as soon as its button can be seen is not lost.
 */
export function useShortcut(key: string, handler: (event: KeyboardEvent) => void, enabled = true) {
  useLayoutEffect(() => {
    if (!enabled) return
    const listen = (event: KeyboardEvent) => {
      if (event.key !== key || event.ctrlKey || event.metaKey || event.altKey) return
      if (isHeld || isTyping(event) || isDialogOpen()) return
      event.preventDefault()
      handler(event)
    }
    document.addEventListener('keydown', listen)
    return () => document.removeEventListener('keydown', listen)
  }, [key, handler, enabled])
}
