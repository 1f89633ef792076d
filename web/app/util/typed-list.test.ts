import { expect, it } from 'vitest'
import { listText, readList } from './typed-list'

it('has one part on each line, and as JSON what lines would change', () => {
  expect(listText(['Berlin, Germany', 'Oslo, Norway'], '\n')).toBe('Berlin, Germany\nOslo, Norway')
  for (const list of [[], ['a'], ['a\nb', 'c'], ['', ' x '], ['[1]'], ['a', 1, null]]) expect(readList(listText(list, '\n'), '\n')).toEqual(list)
  expect(readList(' a \n\n[b\n', '\n')).toEqual(['a', '[b'])
})

it('has commas between short parts', () => {
  expect(listText(['a', 'b'], ', ')).toBe('a, b')
  expect(readList('a,b ,', ', ')).toEqual(['a', 'b'])
  expect(readList(listText(['Berlin, Germany'], ', '), ', ')).toEqual(['Berlin, Germany'])
})
