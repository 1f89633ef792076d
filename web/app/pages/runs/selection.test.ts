import { expect, it } from 'vitest'
import { rangeOf, toggled } from './selection'

const ORDER = ['a', 'b', 'c', 'd']

it('has the rows between two in both directions', () => {
  expect(rangeOf(ORDER, 'b', 'd')).toEqual(['b', 'c', 'd'])
  expect(rangeOf(ORDER, 'c', 'a')).toEqual(['a', 'b', 'c'])
  // The row where it began is not shown any more.
  expect(rangeOf(ORDER, 'x', 'b')).toEqual(['b'])
})

it('makes all rows of a range what the pressed one becomes', () => {
  expect([...toggled(new Set(['a', 'c']), ['b', 'c', 'd'], 'd')]).toEqual(['a', 'c', 'b', 'd'])
  expect([...toggled(new Set(['a', 'b', 'd']), ['b', 'c', 'd'], 'd')]).toEqual(['a'])
})
