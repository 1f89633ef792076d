// What is typed between the keys that open the palette and its field belongs to the palette, and not to the page.
let typed: string | undefined

/** Whether the palette was asked for, and its field is not there yet. */
export const isOpening = () => typed !== undefined

/** From now on, keys are collected. */
export function startTyping() {
  typed ??= ''
}

/** Ends the collection and returns what was typed. */
export function takeTyped(): string {
  const text = typed ?? ''
  typed = undefined
  return text
}

/**
 * Takes a key press from the page while the palette opens. Returns whether it did; Escape gives the palette up. Keys of the
 * browser, such as Ctrl R and F5, are left to it.
 */
export function collectKey(event: KeyboardEvent, giveUp: () => void): boolean {
  if (typed === undefined) return false
  if (event.ctrlKey || event.metaKey || event.altKey || (event.key.length > 1 && !['Escape', 'Backspace', 'Enter'].includes(event.key))) return false
  if (event.key === 'Escape') {
    typed = undefined
    giveUp()
  } else if (event.key === 'Backspace') typed = typed.slice(0, -1)
  else if (event.key.length === 1) typed += event.key
  event.preventDefault()
  event.stopImmediatePropagation()
  return true
}
