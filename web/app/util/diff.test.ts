import { expect, it } from 'vitest'
import { diffLines, pairLines } from './diff'

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

it('puts what was removed beside what was added in its place', () => {
  const pairs = (before: string, after: string) => pairLines(diffLines(before, after)).map((row) => `${row.before ?? ''}|${row.after ?? ''}|${row.isSame}`)
  expect(pairs('a\nb\nc', 'a\nx\ny\nc')).toEqual(['a|a|true', 'b|x|false', '|y|false', 'c|c|true'])
  expect(pairs('a\nb', 'b')).toEqual(['a||false', 'b|b|true'])
  expect(pairs('', '')).toEqual([])
})
