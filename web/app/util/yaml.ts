// Writes JSON values as YAML that people like to read and every parser understands.
import { hasParts, jsonText } from './json'

const MOST_ON_ONE_LINE = 72
const PLAIN_KEY = /^[A-Za-z_][\w-]*$/
const WORDS = new Set(['true', 'false', 'null', 'yes', 'no', 'on', 'off', 'y', 'n'])
/** What a block of lines cannot hold: it begins with a space or ends with a line break, or has characters that need an escape. */
// oxlint-disable-next-line no-control-regex
const NEEDS_QUOTES = /^\s|\n$|[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]/

const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
const quoted = (text: string) => JSON.stringify(text).replaceAll(/[\x7f-\x9f\u2028\u2029\ufeff]/g, escaped)
const keyText = (key: string) => (PLAIN_KEY.test(key) && !WORDS.has(key.toLowerCase()) ? key : quoted(key))

/** A short value of plain parts on one line, as people write it; undefined for others. */
function onOneLine(value: object): string | undefined {
  const parts = Object.entries(value).filter(([, one]) => one !== undefined)
  if (parts.some(([, one]) => hasParts(one) || (typeof one === 'string' && one.includes('\n')))) return undefined
  const scalar = (one: unknown) => (typeof one === 'string' ? quoted(one) : jsonText(one))
  const text = Array.isArray(value) ? `[${parts.map(([, one]) => scalar(one)).join(', ')}]` : parts.length === 0 ? '{}' : `{ ${parts.map(([key, one]) => `${keyText(key)}: ${scalar(one)}`).join(', ')} }`
  return text.length <= MOST_ON_ONE_LINE ? text : undefined
}

/** What follows a key or a dash: a value on the same line, or deeper lines. */
function after(value: unknown, indent: string): string {
  if (typeof value === 'string') {
    if (!value.includes('\n') || NEEDS_QUOTES.test(value)) return ` ${quoted(value)}\n`
    return ` |-\n${value.split('\n').map((line) => (line ? indent + line : '')).join('\n')}\n`
  }
  if (!hasParts(value)) return ` ${jsonText(value ?? null)}\n`
  const line = onOneLine(value)
  return line ? ` ${line}\n` : `\n${toYaml(value, indent)}`
}

/** The lines of an object or a list; empty if there is nothing in it. */
export function toYaml(value: object, indent = ''): string {
  const deeper = `${indent}  `
  if (!Array.isArray(value)) return Object.entries(value).filter(([, one]) => one !== undefined).map(([key, one]) => `${indent}${keyText(key)}:${after(one, deeper)}`).join('')
  return value
    .map((item: unknown) => {
      const isObject = hasParts(item) && !Array.isArray(item) && !onOneLine(item)
      return isObject ? `${indent}- ${toYaml(item, deeper).slice(deeper.length)}` : `${indent}-${after(item, deeper)}`
    })
    .join('')
}
