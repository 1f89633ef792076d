// Texts that are not sent yet, as long as the window is open: by what they are about, such as a conversation.
import { useCallback, useRef, useState } from 'react'

const drafts = new Map<string, string>()
let owner: string | undefined

/** The drafts of a login are not for the next one. */
export function keepDraftsOf(tokenId: string | undefined) {
  if (tokenId === undefined || tokenId === owner) return
  if (owner !== undefined) forgetAllDrafts()
  owner = tokenId
}

export const forgetAllDrafts = () => drafts.clear()

/** The login has ended without a person who left: whoever logs in next in this window goes on with the drafts. */
export function passDraftsOn() {
  owner = undefined
}

export const hasDraft = (key: string) => drafts.has(key)

/** Whether anything is written that a reload would lose. */
export const hasDrafts = () => drafts.size > 0

/** The drafts below a name, by the rest of their names. */
export const draftsOf = (name: string): Map<string, string> => new Map([...drafts].filter(([key]) => key.startsWith(`${name} `)).map(([key, text]) => [key.slice(name.length + 1), text]))

/** Forgets what was sent or given up, with everything below the same name. `text`: only if it is still this. */
export function forgetDrafts(name: string, text?: string) {
  for (const [key, draft] of drafts) {
    if ((key === name || key.startsWith(`${name} `)) && (text === undefined || draft.trim() === text)) drafts.delete(key)
  }
}

type Change = (next: string | ((now: string) => string)) => void

/** A text that is there again when its field is. Without a name it is kept by the field alone. A field keeps its name. */
export function useDraft(name: string | undefined, initial = ''): [string, Change] {
  const [text, setText] = useState(() => (name === undefined ? undefined : drafts.get(name)) ?? initial)
  const last = useRef(text)
  const change: Change = useCallback(
    (next) => {
      // A field that is gone may learn that its text was sent, while another one has the name and a newer text.
      const now = name === undefined ? last.current : (drafts.get(name) ?? initial)
      const written = typeof next === 'function' ? next(now) : next
      if (name !== undefined) {
        if (written.trim() === '' || written === initial) drafts.delete(name)
        else drafts.set(name, written)
      }
      last.current = written
      setText(written)
    },
    [name, initial],
  )
  return [text, change]
}
