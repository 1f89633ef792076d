import { useEffect, useRef } from 'react'

/**
 * Gives the focus to an element when the part of it that had the focus is gone, such as the button of a row that was
 * dealt with. Without this, a keyboard starts again at the top of the page. The element needs a tabindex.
 */
export function useKeptFocus<T extends HTMLElement>() {
  const place = useRef<T>(null)
  const last = useRef<Node>(undefined)
  useEffect(() => {
    const note = ({ target }: FocusEvent) => {
      if (!(target instanceof Element)) return
      // A dialog gives the focus back when it is closed, so it does not count as another place.
      if (place.current?.contains(target)) last.current = target
      else if (!target.closest('[role=dialog]')) last.current = undefined
    }
    document.addEventListener('focusin', note)
    return () => document.removeEventListener('focusin', note)
  }, [])
  useEffect(() => {
    if (!last.current || last.current.isConnected) return
    // A dialog that is closed with this change has had its turn by the next frame.
    const frame = requestAnimationFrame(() => {
      if (document.activeElement !== document.body && document.activeElement !== null) return
      last.current = undefined
      place.current?.focus({ preventScroll: true })
    })
    return () => cancelAnimationFrame(frame)
  })
  return place
}
