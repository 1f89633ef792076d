// What a person types as a budget, and what is said about it.
import { amountOf } from '~/util/amount'

/** Why an amount cannot be sent; the API checks the rest. Tokens are counted in whole ones. */
export function amountProblem(text: string, unit: 'usd' | 'tokens'): string | undefined {
  const whole = unit === 'tokens'
  const value = amountOf(text, whole)
  return value === null || value > 0 ? undefined : `A budget is a ${whole ? 'whole ' : ''}number above zero, such as ${whole ? 90 : 2.5} or 90,000.`
}

/** What a hint says about an amount: what is spent of the limit so far, or what follows from the new limit. */
export function amountHint(text: string, spent: number, limit: number | null | undefined, format: (value: number) => string): string {
  const value = amountOf(text)
  if (value !== null && value < spent) return `Less than is spent: the workflow stops and asks.`
  return `${format(spent)} spent of ${limit == null ? 'no limit' : format(limit)}`
}

/** Whether an amount allows more than the limit so far does. What an empty field means differs: `null` is no limit, `undefined` the limit as it is. */
export function allowsMore(text: string, limit: number | null | undefined, empty: null | undefined): boolean {
  const value = amountOf(text)
  if (limit == null || (value === null && empty === undefined)) return false
  return value === null || value > limit
}
