/** Digits with a point before the decimals, and commas only between groups of three. */
const AMOUNT = /^(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$/

/**
 * The number that a person typed; null if the field is empty, `NaN` if it is none. Whatever could be meant in another
 * way, such as `1,5`, is none: a guess would be ten times too much.
 */
export function amountOf(text: string): number | null {
  const typed = text.trim()
  if (typed === '') return null
  const value = AMOUNT.test(typed) ? Number(typed.replaceAll(',', '')) : NaN
  return Number.isFinite(value) ? value : NaN
}
