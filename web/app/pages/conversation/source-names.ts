// What the sources of an answer are called.
import type { Schemas } from '~/api/types'
import { shortId, words } from '~/util/format'

export type Citation = Schemas['Citation']
export type NamedSource = { source: Citation; name: string; /** How many sources open the same under this name. */ count: number }

const ownName = ({ title, key, id }: Citation) => title || key || shortId(id)

/** The object, the passage with its position in the document, or what a relationship connects; `all` has the names of its ends. */
export function nameOf(source: Citation, all: readonly Citation[]): string {
  const { kind, type, index, fromId, toId } = source
  if (kind === 'chunk' && index != null) return `${ownName(source)}, passage ${index + 1}`
  if (kind !== 'relationship' || !type) return ownName(source)
  const [from, to] = [fromId, toId].map((id) => all.find((one) => one.kind === 'object' && one.id === id))
  return from || to ? `${from ? ownName(from) : '…'} ${words(type)} ${to ? ownName(to) : '…'}` : source.title || words(type)
}

/** The sources by what they open and their names, relationships last: what is connected says less than what it connects. */
export function namedSources(sources: readonly Citation[]): NamedSource[] {
  const rank = ({ kind }: Citation) => Number(kind === 'relationship')
  const named = new Map<string, NamedSource>()
  for (const source of [...sources].sort((a, b) => rank(a) - rank(b))) {
    const name = nameOf(source, sources)
    // Two objects of one name are two sources.
    const { id, kind, type, index, fromId, toId, documentId } = source
    const key = [kind, type, name, fromId ? [fromId, toId] : documentId ? [documentId, index] : id].join()
    const known = named.get(key)
    if (known) known.count += 1
    else named.set(key, { source, name, count: 1 })
  }
  return [...named.values()]
}
