import { formatCount } from '~/util/format'

/** Says below a list that it goes on, if it does. */
export function ListEnd({ page }: { page: { items: unknown[]; cursor: string | undefined } }) {
  if (!page.cursor) return null
  return <p className="border-t border-line px-4 py-2 text-xs text-text-2">These are the first {formatCount(page.items.length)}. The API has the others.</p>
}
