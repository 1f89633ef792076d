// How objects of the graph are named and coloured.
type Named = { id: string; key?: string | null; properties: Record<string, unknown> }

const NAMES = ['name', 'title', 'label', 'topic'] as const
const TEXTS = ['description', 'summary', 'text', 'content', 'note', 'body'] as const

const firstText = (properties: Record<string, unknown>, fields: readonly string[]) => {
  for (const field of fields) {
    const value = properties[field]
    if (typeof value === 'string' && value.trim() !== '') return value
  }
  return undefined
}

/** The name of an object as people know it. What has neither a name nor a key, such as a message, is named by what it says. */
export const titleOf = (object: Named): string => firstText(object.properties, NAMES) ?? object.key ?? firstText(object.properties, TEXTS)?.slice(0, 100) ?? object.id

/** A sentence about an object, or its first properties. */
export function summaryOf(object: Named): string {
  const text = firstText(object.properties, TEXTS)
  if (text) return text
  return Object.entries(object.properties)
    .filter(([name]) => !(NAMES as readonly string[]).includes(name))
    .slice(0, 4)
    .map(([name, value]) => `${name}: ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
    .join(' · ')
}

/** Middle tones that stand out on both themes. */
const COLOURS = ['#4f7df0', '#2f9e8f', '#d98a1f', '#9b6bf2', '#d6568f', '#5f9e3a', '#0e9bbd', '#b5703f', '#8a7fd6', '#7d8797']

const given = new Map<string, string>()

/** The colour of a type. It depends on the name, and moves on if another type of this visit has it. */
export function colourOf(type: string): string {
  const known = given.get(type)
  if (known) return known
  let hash = 0
  for (const letter of type) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0
  const taken = new Set(given.values())
  const order = COLOURS.map((_, index) => COLOURS[(hash + index) % COLOURS.length]!)
  const colour = order.find((one) => !taken.has(one)) ?? order[0]!
  given.set(type, colour)
  return colour
}
