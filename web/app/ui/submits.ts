import type { SyntheticEvent } from 'react'
import { reveal } from '~/hooks/use-revealed-problem'

const isInvalid = (element: Element) => (element as HTMLInputElement).validity?.valid === false

/** Acts when a form is submitted, unless a field holds what cannot be read: that one is shown and gets the focus. */
export const submits = (act: () => void) => (event: SyntheticEvent<HTMLFormElement>) => {
  event.preventDefault()
  // A dialog may be inside of a form of the page.
  event.stopPropagation()
  const invalid = [...event.currentTarget.elements].find(isInvalid) as HTMLElement | undefined
  if (!invalid) return act()
  reveal(invalid)
  invalid.focus()
}
