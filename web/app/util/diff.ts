import { jsonText } from './json'

/** The lines of a text in JSON stand below each other: a prompt is often one text of many lines. */
const unfoldText = (line: string) => line.replace(/\\(.)/g, (pair, escaped) => (escaped === 'n' ? `\n${/^ */.exec(line)![0]}  ` : pair))

/** A JSON value as lines. Without the commas at their ends, a line does not change because another one follows it. */
export const asText = (value: unknown) => (typeof value === 'string' ? value : jsonText(value, 2).replace(/,$/gm, '').replace(/^.*\\n.*$/gm, unfoldText))

/** A part of a line, and whether only this line of the two has it. */
export type DiffWord = { text: string; isChanged: boolean }
/** `isWhole` says that comparing was given up: all lines from the first to the last difference are removed, and added. */
export type DiffLine = { kind: 'same' | 'added' | 'removed'; text: string; words?: DiffWord[]; isWhole?: true }

/** Beyond this many changed lines, comparing is given up: its time and memory grow with the square of them. */
const MAX_LINES = 3000
/** The same for the words of one pair of lines; there may be many pairs. */
const MAX_WORDS = 500

/** The shortest list of removed and added lines that turns one text into the other, with the words that changed within a line. */
export function diffLines(before: string, after: string): DiffLine[] {
  // A text that is not there has no line, not an empty one.
  const a = before === '' ? [] : before.split('\n')
  const b = after === '' ? [] : after.split('\n')
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const same = (text: string): DiffLine => ({ kind: 'same', text })
  const [removed, added] = [a.slice(start, a.length - end), b.slice(start, b.length - end)]
  const isWhole = (removed.length > 0 && added.length > 0) || undefined
  const all = (kind: DiffLine['kind'], texts: string[]) => texts.map((text): DiffLine => ({ kind, text, isWhole }))
  const middle = (isWhole && diffMiddle(removed, added, MAX_LINES)) ?? [...all('removed', removed), ...all('added', added)]
  return [...a.slice(0, start).map(same), ...markWords(middle), ...a.slice(a.length - end).map(same)]
}

/** Compares each removed line with the one that was added in its place, word by word. */
function markWords(lines: DiffLine[]): DiffLine[] {
  let removed: DiffLine[] = []
  for (const line of lines) {
    const partner = line.kind === 'added' ? removed.shift() : undefined
    if (partner) [partner.words, line.words] = diffWords(partner.text, line.text)
    else if (line.kind === 'removed') removed.push(line)
    else if (line.kind === 'same') removed = []
  }
  return lines
}

const WORD = /[\p{L}\p{N}_]+|\s+|./gu

/** Two lines as words. Lines that have less than a half in common are other lines: marks would hide what they say. */
function diffWords(before: string, after: string): [DiffWord[], DiffWord[]] | [] {
  const [a, b] = [before.match(WORD) ?? [], after.match(WORD) ?? []]
  const words = diffMiddle(a, b, MAX_WORDS)
  if (!words) return []
  const common = words.reduce((sum, { kind, text }) => sum + (kind === 'same' ? text.trim().length : 0), 0)
  if (common * 2 < Math.min(...[before, after].map((line) => line.replace(/\s/g, '').length))) return []
  const side = (other: DiffLine['kind']) => {
    const parts: DiffWord[] = []
    for (const { kind, text } of words) {
      if (kind === other) continue
      const last = parts.at(-1)
      if (last?.isChanged === (kind !== 'same')) last.text += text
      else parts.push({ text, isChanged: kind !== 'same' })
    }
    return parts
  }
  return [side('added'), side('removed')]
}

/**
 * The fewest changes that turn one list into the other, by the algorithm of Myers ("An O(ND) difference algorithm"): its
 * work grows with what differs, not with what there is. Undefined if there are more changes than `most`.
 */
function diffMiddle(a: string[], b: string[], most: number): DiffLine[] | undefined {
  const limit = Math.min(most, a.length + b.length)
  // How far in `a` a path gets on each diagonal, which is the place in `a` less the place in `b`, with `count` changes.
  const reach = new Int32Array(2 * limit + 3)
  const before: Int32Array[] = []
  const comesDown = (k: number, count: number, at: (k: number) => number) => k === -count || (k !== count && at(k - 1) < at(k + 1))
  const at = (k: number) => reach[k + limit + 1]!
  for (let count = 0; count <= limit; count++) {
    before.push(reach.slice(limit - count, limit + count + 3))
    for (let k = -count; k <= count; k += 2) {
      let i = comesDown(k, count, at) ? at(k + 1) : at(k - 1) + 1
      while (i < a.length && i - k < b.length && a[i] === b[i - k]) i++
      reach[k + limit + 1] = i
      if (i >= a.length && i - k >= b.length) return pathBack(count)
    }
  }
  return undefined

  function pathBack(found: number): DiffLine[] {
    const lines: DiffLine[] = []
    let [i, j] = [a.length, b.length]
    for (let count = found; count >= 0; count--) {
      const then = (k: number) => before[count]![k + count + 1]!
      const isAdded = comesDown(i - j, count, then)
      const start = count === 0 ? 0 : isAdded ? then(i - j + 1) : then(i - j - 1) + 1
      for (; i > start; j--) lines.push({ kind: 'same', text: a[--i]! })
      if (count > 0) lines.push(isAdded ? { kind: 'added', text: b[--j]! } : { kind: 'removed', text: a[--i]! })
    }
    return lines.reverse()
  }
}

export type DiffRow = { before: DiffLine | undefined; after: DiffLine | undefined; isSame: boolean }

/** The lines in two columns: what was removed stands beside what was added in its place. */
export function pairLines(lines: DiffLine[]): DiffRow[] {
  const rows: DiffRow[] = []
  let removed: DiffLine[] = []
  let added: DiffLine[] = []
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) rows.push({ before: removed[index], after: added[index], isSame: false })
    removed = []
    added = []
  }
  for (const line of lines) {
    if (line.kind === 'removed') removed.push(line)
    else if (line.kind === 'added') added.push(line)
    else {
      flush()
      rows.push({ before: line, after: line, isSame: true })
    }
  }
  flush()
  return rows
}

/** How many unchanged lines stay beside a change, and the fewest that are worth a button. */
const AROUND = 3
const LEAST_FOLDED = 4

/** Lines that follow each other, from the one at this position on. */
export type DiffPart<T> = { at: number; lines: T[]; isFolded: boolean }

/** Parts of a list of lines. Those far from every change can be folded away. */
export function foldLines<T>(lines: T[], isSame: (line: T) => boolean): DiffPart<T>[] {
  const parts: DiffPart<T>[] = []
  const add = (from: number, to: number, isFolded: boolean) => {
    const last = parts.at(-1)
    if (last && !last.isFolded && !isFolded) last.lines.push(...lines.slice(from, to))
    else if (to > from) parts.push({ at: from, lines: lines.slice(from, to), isFolded })
  }
  for (let start = 0, end = 0; start < lines.length; start = end) {
    const kind = isSame(lines[start]!)
    while (end < lines.length && isSame(lines[end]!) === kind) end++
    const from = start === 0 ? start : start + AROUND
    const to = end === lines.length ? end : end - AROUND
    if (!kind || to - from < LEAST_FOLDED) add(start, end, false)
    else {
      add(start, from, false)
      add(from, to, true)
      add(to, end, false)
    }
  }
  return parts
}
