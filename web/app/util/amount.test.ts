import { expect, it } from 'vitest'
import { amountOf } from './amount'

it('reads plain numbers, and commas between thousands', () => {
  for (const [text, value] of [['5', 5], ['0.25', 0.25], [' 90,000 ', 90_000], ['1,234,567.5', 1_234_567.5], ['50000', 50_000]] as const) expect(amountOf(text), text).toBe(value)
  expect(amountOf('  ')).toBeNull()
})

it('does not guess what could be meant in another way', () => {
  for (const text of ['1,5', '1,50', '12,34', '1.000,5', '1 000', '1e3', 'Infinity', '0x10', '-1', '+1', '.5', '5.', '1,0000', ',500', '9'.repeat(400)]) expect(amountOf(text), text).toBeNaN()
})
