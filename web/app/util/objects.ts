// How objects of the graph are named and coloured.
import { hasParts } from './json'

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

const ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i

/** A value in a line of text: a list by its texts, and what has fields by their names. */
function inLine(value: unknown): string {
  if (!hasParts(value)) return String(value)
  return (Array.isArray(value) ? value.filter((one) => !hasParts(one) && one !== null) : Object.keys(value)).join(', ')
}

/** A sentence about an object that its name does not say already, or its first properties. */
export function summaryOf(object: Named): string {
  const title = titleOf(object)
  const text = firstText(object.properties, TEXTS)
  if (text && text !== title) return text
  return Object.entries(object.properties)
    .filter(([name, value]) => !(NAMES as readonly string[]).includes(name) && value !== title)
    .map(([name, value]) => [name.replaceAll('_', ' '), inLine(value)])
    .filter(([, shown]) => shown !== '' && !ID.test(shown!))
    .slice(0, 4)
    .map((pair) => pair.join(': '))
    .join(' · ')
}

/** Twenty middle tones, six digits each. Each has a contrast of at least 3:1 on the surfaces of both themes. */
const COLOURS = 'e05860b14420d16e06916007a989047071026f9e091a812f08a576007d70179fa50178900e97d21e6cbf6a81f26d58bba96bda964799d05ba5ae3e65'

/** The colour of a type. It depends on the name alone, so it is the same on every page and after each reload. */
export function colourOf(type: string): string {
  let hash = 0
  // With this factor, the types of the products that come with the server have colours that are easy to tell apart.
  for (const letter of type) hash = Math.imul(hash ^ letter.charCodeAt(0), 246_879)
  const start = ((hash >>> 16) % 20) * 6
  return `#${COLOURS.slice(start, start + 6)}`
}
