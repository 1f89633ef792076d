import { expect, it } from 'vitest'
import { diffLines } from './diff'

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
