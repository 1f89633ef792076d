// A list of texts as a person types it: with a separator between its parts, or as JSON where that would change them.
import { jsonText, parseJson } from './json'

/** What stands between the separators, without the spaces around it. */
export const partsOf = (text: string, separator: string): string[] => text.split(separator.trim() || separator).map((part) => part.trim()).filter(Boolean)

/** The parts of what was typed. A text that is a whole JSON list is that list. */
export function readList(text: string, separator: string): unknown[] {
  if (text.trimStart().startsWith('[')) {
    try {
      const list = parseJson(text)
      if (Array.isArray(list)) return list as unknown[]
    } catch {
      // A part may begin with a bracket as well.
    }
  }
  return partsOf(text, separator)
}

/** A list as a text that `readList` reads as the same list. */
export function listText(list: readonly unknown[], separator: string): string {
  const text = list.join(separator)
  return jsonText(readList(text, separator)) === jsonText(list) ? text : jsonText(list)
}
