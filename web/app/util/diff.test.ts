import { expect, it } from 'vitest'
import { asText, diffLines, type DiffLine, foldLines, pairLines } from './diff'

const text = (before: string, after: string) =>
  diffLines(before, after)
    .map(({ kind, text: line }) => ({ same: ' ', added: '+', removed: '-' })[kind] + line)
    .join('|')

it('shows the fewest changed lines', () => {
  expect(text('a\nb\nc', 'a\nx\nc')).toBe(' a|-b|+x| c')
  expect(text('a\nb\nc\nd', 'b\nd\ne')).toBe('-a| b|-c| d|+e')
  expect(text('same', 'same')).toBe(' same')
  expect(text('', 'a\nb')).toBe('+a|+b')
  expect(text('a', '')).toBe('-a')
})

it('compares long texts, and says where it gives up', () => {
  const lines = Array.from({ length: 3000 }, (_, index) => `line ${index}`)
  const after = lines.map((line, index) => (index % 7 === 0 ? `new ${line}` : line)).filter((_, index) => index % 13 !== 0)
  const diff = diffLines(lines.join('\n'), after.join('\n'))
  const count = (kind: DiffLine['kind']) => diff.filter((line) => line.kind === kind).length
  expect([count('same'), count('removed'), count('added')]).toEqual([2373, 627, 396])
  expect(diff.some(({ isWhole }) => isWhole)).toBe(false)
  const other = lines.map((line) => `other ${line}`)
  const whole = diffLines(['first', ...lines, 'last'].join('\n'), ['first', ...other, 'last'].join('\n'))
  expect(whole.map(({ kind, isWhole }) => `${kind}${isWhole ? ' whole' : ''}`)).toEqual(['same', ...lines.map(() => 'removed whole'), ...other.map(() => 'added whole'), 'same'])
  expect(diffLines('', Array(9000).fill('new').join('\n')).some(({ isWhole }) => isWhole)).toBe(false)
})

it('keeps both texts, whatever they are', () => {
  let seed = 1
  const random = (most: number) => (seed = (seed * 48_271) % 2_147_483_647) % most
  for (let round = 0; round < 300; round++) {
    const [before, after] = [0, 1].map(() => Array.from({ length: 1 + random(9) }, () => 'abc'[random(3)]).join('\n')) as [string, string]
    const diff = diffLines(before, after)
    const side = (other: string) => diff.filter(({ kind }) => kind !== other).map((line) => line.text).join('\n')
    expect([side('added'), side('removed')]).toEqual([before, after])
  }
})

it('puts what was removed beside what was added in its place', () => {
  const pairs = (before: string, after: string) => pairLines(diffLines(before, after)).map((row) => `${row.before?.text ?? ''}|${row.after?.text ?? ''}|${row.isSame}`)
  expect(pairs('a\nb\nc', 'a\nx\ny\nc')).toEqual(['a|a|true', 'b|x|false', '|y|false', 'c|c|true'])
  expect(pairs('a\nb', 'b')).toEqual(['a||false', 'b|b|true'])
  expect(pairs('', '')).toEqual([])
})

it('shows the lines of a text in JSON below each other', () => {
  const prompt = asText({ name: 'x', prompt: 'Be brief.\nName "C:\\new",\n\nalways.' }).split('\n')
  expect(prompt).toEqual(['{', '  "name": "x"', '  "prompt": "Be brief.', '    Name \\"C:\\\\new\\",', '    ', '    always."', '}'])
})

it('marks the words that changed within a line', () => {
  const marked = (before: string, after: string) => diffLines(before, after).map(({ words }: DiffLine) => words?.map(({ text: word, isChanged }) => (isChanged ? `[${word}]` : word)).join(''))
  expect(marked('Answer in one short sentence.', 'Answer in two short sentences.')).toEqual(['Answer in [one] short [sentence].', 'Answer in [two] short [sentences].'])
  expect(marked('a', 'something else')).toEqual([undefined, undefined])
  expect(marked('same', 'same')).toEqual([undefined])
})

it('folds the lines that are far from every change, where that is worth it', () => {
  const folded = (lines: string) => foldLines([...lines], (line) => line === ' ').map((part) => `${part.isFolded ? 'folded ' : ''}${part.lines.length}`)
  expect(folded(`${' '.repeat(7)}+${' '.repeat(10)}-${' '.repeat(20)}`)).toEqual(['folded 4', '7', 'folded 4', '7', 'folded 17'])
  expect(folded(`${' '.repeat(6)}+${' '.repeat(9)}-${' '.repeat(6)}`)).toEqual(['23'])
  expect(folded(' '.repeat(2))).toEqual(['2'])
})
