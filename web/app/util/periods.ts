// Times in the URL: a period such as `24h`, which counts from now, or a moment.
export const PERIODS = { '1h': 3_600_000, '24h': 86_400_000, '7d': 7 * 86_400_000 } as const

/** A time of the URL, if it is one. */
export function parseTime(text: string | undefined): string | undefined {
  return text && !Number.isNaN(Date.parse(text)) ? text : undefined
}

/** A period or a time of the URL, if it is one. */
export const parseSince = (text: string | undefined) => (text && text in PERIODS ? text : parseTime(text))

/** A period or a time as the API takes it. */
export const sinceTime = (since: string, now: number) => new Date(since in PERIODS ? now - PERIODS[since as keyof typeof PERIODS] : since).toISOString()

/** A time as the field of the browser takes it, in the time zone of the person: to the minute, or to the second. */
export function localTime(time: string | undefined, length: 16 | 19 = 16): string {
  if (!time) return ''
  const date = new Date(time)
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, length)
}
