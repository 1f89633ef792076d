/** A JSON value as lines. Without the commas at their ends, a line does not change because another one follows it. */
export const asText = (value: unknown) => (typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '').replace(/,$/gm, ''))

export type DiffLine = { kind: 'same' | 'added' | 'removed'; text: string }

/** Beyond this many pairs of lines the middle is shown as removed and added, because comparing it would take too long. */
const MAX_PAIRS = 4_000_000

/** The shortest list of removed and added lines that turns one text into the other. */
export function diffLines(before: string, after: string): DiffLine[] {
  // A text that is not there has no line, not an empty one.
  const a = before === '' ? [] : before.split('\n')
  const b = after === '' ? [] : after.split('\n')
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const same = (text: string): DiffLine => ({ kind: 'same', text })
  const middle = diffMiddle(a.slice(start, a.length - end), b.slice(start, b.length - end))
  return [...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)]
}

function diffMiddle(a: string[], b: string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ kind: 'removed', text })
  const added = (text: string): DiffLine => ({ kind: 'added', text })
  if (a.length * b.length > MAX_PAIRS || a.length === 0 || b.length === 0) return [...a.map(removed), ...b.map(added)]
  // common[i][j] is the length of the longest common subsequence of a from i and b from j.
  const width = b.length + 1
  const common = new Uint32Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!)
    }
  }
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i]! })
      i++
      j++
    } else if (common[(i + 1) * width + j]! >= common[i * width + j + 1]!) lines.push(removed(a[i++]!))
    else lines.push(added(b[j++]!))
  }
  return [...lines, ...a.slice(i).map(removed), ...b.slice(j).map(added)]
}

export type DiffRow = { before: string | undefined; after: string | undefined; isSame: boolean }

/** The lines in two columns: what was removed stands beside what was added in its place. */
export function pairLines(lines: DiffLine[]): DiffRow[] {
  const rows: DiffRow[] = []
  let removed: string[] = []
  let added: string[] = []
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) rows.push({ before: removed[index], after: added[index], isSame: false })
    removed = []
    added = []
  }
  for (const { kind, text } of lines) {
    if (kind === 'removed') removed.push(text)
    else if (kind === 'added') added.push(text)
    else {
      flush()
      rows.push({ before: text, after: text, isSame: true })
    }
  }
  flush()
  return rows
}
