// Named filters of the Runs page. They are kept in this browser, for each project.
import { useSyncExternalStore } from 'react'
import { currentProject } from '~/api/client'

export type SavedView = { name: string; search: Record<string, string> }

const keyOf = () => `emergent-run-views-${currentProject() ?? ''}`
const listeners = new Set<() => void>()
let cache: { text: string | null; views: SavedView[] } = { text: null, views: [] }

/** Reads what is stored; what is no list of views is ignored. */
function read(): SavedView[] {
  let text: string | null = null
  try {
    text = localStorage.getItem(keyOf())
  } catch {
    return cache.views
  }
  if (text === cache.text) return cache.views
  let views: SavedView[] = []
  try {
    const parsed: unknown = JSON.parse(text ?? '[]')
    if (Array.isArray(parsed)) views = parsed.filter((one): one is SavedView => typeof one?.name === 'string' && typeof one?.search === 'object' && one.search !== null)
  } catch {
    views = []
  }
  cache = { text, views }
  return views
}

function write(views: SavedView[]) {
  localStorage.setItem(keyOf(), JSON.stringify(views))
  listeners.forEach((listener) => listener())
}

/** Saves filters by a name; a view of the same name is replaced. */
export const saveView = (view: SavedView) => write([...read().filter((one) => one.name !== view.name), view].sort((a, b) => a.name.localeCompare(b.name)))
export const removeView = (name: string) => write(read().filter((one) => one.name !== name))

export function useSavedViews(): SavedView[] {
  return useSyncExternalStore((listener) => {
    listeners.add(listener)
    window.addEventListener('storage', listener)
    return () => {
      listeners.delete(listener)
      window.removeEventListener('storage', listener)
    }
  }, read)
}
