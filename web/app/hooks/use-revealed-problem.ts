import { useEffect, useRef } from 'react'

/** Opens what an element is folded into, and brings it into view. */
export function reveal(element: Element) {
  for (let around = element.closest('details'); around; around = around.parentElement?.closest('details') ?? null) around.open = true
  element.scrollIntoView({ block: 'nearest' })
}

/**
 * Brings what is new into view when a change of a form was refused: the alert, or the first field with a problem.
 * What is said while somebody types stands at the field that has the focus. Returns who takes the form itself, and
 * what to call when it is sent and when somebody types again.
 */
export function useRevealedProblem<T extends HTMLElement>() {
  const form = useRef<T>(null)
  const shown = useRef<Element>(null)
  const isSent = useRef(false)
  // Whether there is a problem is known only when it is drawn.
  useEffect(() => {
    const alerts = form.current?.querySelectorAll('[role=alert]')
    const problem = alerts?.item(alerts.length - 1) ?? (isSent.current ? form.current?.querySelector('[aria-invalid=true]') : null) ?? null
    if (problem && problem !== shown.current) reveal(problem)
    shown.current = problem
  })
  return {
    form,
    onSent: () => {
      isSent.current = true
      shown.current = null
    },
    onTyped: () => {
      isSent.current = false
    },
  }
}
