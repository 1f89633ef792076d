/** Digits with a point before the decimals, and commas only between groups of three. */
const AMOUNT = /^(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$/

/**
 * The number that a person typed; null if the field is empty, `NaN` if it is none. Whatever could be meant in another
 * way, such as `1,5`, is none: a guess would be ten times too much. Where things are counted, a point is meant as the
 * comma is here: `90.000` is 90,000 to half of the world.
 */
export function amountOf(text: string, whole?: boolean): number | null {
  const typed = text.trim()
  if (typed === '') return null
  const value = AMOUNT.test(typed) && !(whole && typed.includes('.')) ? Number(typed.replaceAll(',', '')) : NaN
  return Number.isFinite(value) ? value : NaN
}

export type AmountRules = {
  /** Whether it counts things, so that it has no decimals. */
  whole?: boolean
  least?: number
  most?: number
}

const shown = (value: number) => value.toLocaleString('en', { maximumFractionDigits: 20 })

/** Why a text is no number that a field takes; undefined if it is one, or if there is no text. */
export function amountProblem(text: string, { whole, least = 0, most = Infinity }: AmountRules = {}): string | undefined {
  const value = amountOf(text, whole)
  if (value === null) return undefined
  if (Number.isNaN(value)) return whole ? 'This is no whole number. Write it as 90 or 90,000.' : 'This is no number. Write it as 2.5 or 90,000.'
  if (value < least || value > most) return most === Infinity ? `Use at least ${shown(least)}.` : `Use ${shown(least)} to ${shown(most)}.`
  // A larger one would be rounded.
  return whole && !Number.isSafeInteger(value) ? `Use at most ${shown(Number.MAX_SAFE_INTEGER)}.` : undefined
}

/** A number as a person would type it. */
export const amountText = (value: number | null | undefined): string => (value == null ? '' : value.toLocaleString('en', { useGrouping: false, maximumFractionDigits: 20 }))
