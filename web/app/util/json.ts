// JSON with all of its digits. The numbers of the browser keep about 16 of them, so an id such as 9007199254740995 would
// be shown as another one, and sent back as another one.

type WithRawJson = { rawJSON?: (text: string) => unknown }
const { rawJSON } = JSON as WithRawJson

/** What marks a number while it is a text. Nobody else knows it, so no text of the server can be taken for a number. */
const MARK = `number-${Math.random().toString(36).slice(2)}:`
const MARKED = new RegExp(`"${MARK}([^"]+)"`, 'g')

/** A number that the browser would round. It is shown and sent as it was written; sums and comparisons are rounded. */
export class ExactNumber {
  readonly source: string

  constructor(source: string) {
    this.source = source
  }

  toString() {
    return this.source
  }

  valueOf() {
    return Number(this.source)
  }

  toJSON() {
    return rawJSON ? rawJSON(this.source) : MARK + this.source
  }

  /** React shows what can be iterated, so a component that shows a number shows this one as well. */
  *[Symbol.iterator]() {
    yield this.source
  }
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/
/** Numbers, and where texts begin: what looks like a number inside of a text is none. */
const TOKENS = /"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
/** No number is rounded without so many digits, or so large an exponent. Ids have parts such as `9e456` in the middle of a text. */
const MAY_BE_ROUNDED = /[\d.]{16}|(?:^|[[:,\s])-?\d[\d.]*[eE][+-]?\d{3}/

/** A number without what depends on how it is written: its digits and its exponent. */
function digitsOf(text: string): string {
  const [, sign = '', whole = '', decimals = '', exponent = '0'] = NUMBER.exec(text) ?? []
  const all = (whole + decimals).replace(/^0+/, '')
  const digits = all.replace(/0+$/, '')
  return digits === '' ? '0' : `${sign}${digits}e${Number(exponent) - decimals.length + all.length - digits.length}`
}

function isRounded(text: string): boolean {
  const value = Number(text)
  if (/^-?\d+$/.test(text)) return !Number.isSafeInteger(value)
  return !Number.isFinite(value) || digitsOf(text) !== digitsOf(String(value))
}

/** Where the text ends that begins at `start`. An expression for it would need a stack as deep as the text has escapes. */
function endOfText(json: string, start: number): number {
  for (let quote = json.indexOf('"', start + 1); ; quote = json.indexOf('"', quote + 1)) {
    let slashes = 0
    while (json[quote - 1 - slashes] === '\\') slashes++
    if (slashes % 2 === 0) return quote + 1
  }
}

/** JSON whose numbers that would be rounded are marked texts. */
function markedNumbers(json: string): string {
  const tokens = new RegExp(TOKENS)
  let marked = ''
  let done = 0
  for (let found = tokens.exec(json); found; found = tokens.exec(json)) {
    const [token] = found
    if (token === '"') tokens.lastIndex = endOfText(json, found.index)
    else if (isRounded(token)) {
      marked += `${json.slice(done, found.index)}"${MARK}${token}"`
      done = tokens.lastIndex
    }
  }
  return marked + json.slice(done)
}

/** Reads JSON. Numbers that the browser would round become `ExactNumber`. */
export function parseJson(text: string): unknown {
  // What is no JSON is said about the text as it is.
  const value: unknown = JSON.parse(text)
  if (!MAY_BE_ROUNDED.test(text)) return value
  const marked = markedNumbers(text)
  if (marked === text) return value
  return JSON.parse(marked, (_, one: unknown) => (typeof one === 'string' && one.startsWith(MARK) ? new ExactNumber(one.slice(MARK.length)) : one))
}

/** How people write numbers: also with a plus, with zeros in front, and with nothing before or after the point. */
const TYPED = /^([+-]?)0*(\d*)(?:\.(\d*))?(e[+-]?\d+)?$/i

/** A number as somebody typed it, with all of its digits; undefined if it is none. */
export function numberOf(text: string): number | ExactNumber | undefined {
  const typed = text.trim()
  const parts = TYPED.exec(typed)
  if (!parts || !/^[+-]?\.?\d/.test(typed)) return undefined
  const [, sign, whole, decimals, exponent = ''] = parts
  const json = `${sign === '-' ? '-' : ''}${whole || 0}${decimals ? `.${decimals}` : ''}${exponent}`
  return isRounded(json) ? new ExactNumber(json) : Number(json)
}

/** Writes JSON, with exact numbers as they were read. */
export function jsonText(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent) as string | undefined
  return rawJSON ? (text ?? '') : (text ?? '').replaceAll(MARKED, '$1')
}

/** Writes JSON that is sent. JSON has no word for a number that is none, and would say null, which often means no limit. */
export function bodyText(value: unknown): string {
  JSON.stringify(value, (name, one: unknown) => {
    if (typeof one === 'number' && !Number.isFinite(one)) throw new Error(`${name || 'The value'} is no number, so it cannot be sent.`)
    return one
  })
  return jsonText(value)
}

/** Whether a value has parts: a list or an object. */
export const hasParts = (value: unknown): value is object => typeof value === 'object' && value !== null && !(value instanceof ExactNumber)
