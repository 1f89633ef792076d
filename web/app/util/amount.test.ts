import { expect, it } from 'vitest'
import { amountOf, amountProblem, amountText } from './amount'

it('reads plain numbers, and commas between thousands', () => {
  for (const [text, value] of [['5', 5], ['0.25', 0.25], [' 90,000 ', 90_000], ['1,234,567.5', 1_234_567.5], ['50000', 50_000]] as const) expect(amountOf(text), text).toBe(value)
  expect(amountOf('  ')).toBeNull()
})

it('does not guess what could be meant in another way', () => {
  for (const text of ['1,5', '1,50', '12,34', '1.000,5', '1 000', '1e3', 'Infinity', '0x10', '-1', '+1', '.5', '5.', '1,0000', ',500', '9'.repeat(400)]) expect(amountOf(text), text).toBeNaN()
})

it('says why a text is not what a field takes', () => {
  expect(amountProblem('')).toBeUndefined()
  expect(amountProblem('2.5')).toBeUndefined()
  expect(amountProblem('80000-')).toBe('This is no number. Write it as 2.5 or 90,000.')
  for (const text of ['8e4', '2.5', '90.000', '1.000', '1,000.0']) expect(amountProblem(text, { whole: true }), text).toBe('This is no whole number. Write it as 90 or 90,000.')
  expect(amountProblem('0', { whole: true, least: 1 })).toBe('Use at least 1.')
  expect(amountProblem('10000000000', { whole: true, least: 1, most: 36_500 })).toBe('Use 1 to 36,500.')
  expect(amountProblem('2.5', { most: 2 })).toBe('Use 0 to 2.')
  expect(amountProblem('9007199254740993', { whole: true })).toBe('Use at most 9,007,199,254,740,991.')
})

it('writes a number so that it is read again', () => {
  for (const value of [0, 0.1, 1e-7, 2.5, 90_000, 1e21, 0.30000000000000004]) expect(amountOf(amountText(value)), String(value)).toBe(value)
  expect(amountText(null)).toBe('')
})
