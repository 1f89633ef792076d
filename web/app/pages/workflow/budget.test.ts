import { expect, it } from 'vitest'
import { formatCount, formatSpent } from '~/util/format'
import { allowsMore, amountHint, amountProblem } from './budget'

it('demands whole tokens, and numbers above zero', () => {
  for (const text of ['1.5', '90.000']) expect(amountProblem(text, 'tokens')).toBe('A budget is a whole number above zero, such as 90 or 90,000.')
  expect(amountProblem('1.5', 'usd')).toBeUndefined()
  for (const text of ['0', 'much', '-1', '1,5', 'Infinity']) expect(amountProblem(text, 'usd')).toBe('A budget is a number above zero, such as 2.5 or 90,000.')
  for (const text of ['', '90,000']) expect(amountProblem(text, 'tokens')).toBeUndefined()
})

it('says that a limit below what is spent stops the workflow', () => {
  expect(amountHint('40', 49, 50_000, formatCount)).toBe('Less than is spent: the workflow stops and asks.')
  expect(amountHint('90', 49, 500, formatCount)).toBe('49 spent of 500')
  expect(amountHint('', 49, null, formatCount)).toBe('49 spent of no limit')
})

it('says what is reserved', () => {
  expect(formatSpent(49, 828, 900, formatCount)).toBe('49 spent, 828 reserved of 900')
  expect(formatSpent(49, 0, 900, formatCount)).toBe('49 spent of 900')
  expect(formatSpent(49, 0, null, formatCount)).toBe('49 spent, no limit set')
})

it('tells a limit that is raised or removed from one that is lowered or new', () => {
  expect(allowsMore('60', 50, null)).toBe(true)
  expect(allowsMore('', 50, null)).toBe(true)
  expect(allowsMore('', 50, undefined)).toBe(false)
  for (const text of ['40', '50']) expect(allowsMore(text, 50, null)).toBe(false)
  for (const text of ['40', '']) expect(allowsMore(text, null, null)).toBe(false)
})
