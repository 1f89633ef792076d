// Numbers, times and amounts as text.

const integer = new Intl.NumberFormat('en')
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
// Made once: `toLocaleString` makes one for each call, which takes longer than everything else about a row.
const amounts = [2, 3, 4].map((digits) => new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: digits }))
// With the name of the zone: what fires at times is planned in another one as often as not.
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' })

export const formatCount = (value: number) => integer.format(value)
/** A count that may not be all of them. */
export const formatSeen = (value: number, hasMore: boolean) => `${integer.format(value)}${hasMore ? '+' : ''}`
export const formatCompact = (value: number) => (Math.abs(value) < 10_000 ? integer.format(value) : compact.format(value))

/** An amount in dollars; small ones keep the digits that tell them apart from nothing. */
export function formatMoney(usd: number): string {
  if (usd === 0) return '$0.00'
  if (Math.abs(usd) < 0.0001) return '< $0.0001'
  const digits = Math.abs(usd) < 0.01 ? 4 : Math.abs(usd) < 1 ? 3 : 2
  return `$${amounts[digits - 2]!.format(usd)}`
}

/** What is spent and reserved of a limit. A reservation is of model calls under way, and counts until they end. */
export const formatSpent = (spent: number, reserved: number, limit: number | null | undefined, format: (value: number) => string) => `${format(spent)} spent${reserved > 0 ? `, ${format(reserved)} reserved` : ''}${limit == null ? ', no limit set' : ` of ${format(limit)}`}`

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`
  const seconds = milliseconds / 1000
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  const [large, small] = minutes < 60 ? [`${minutes} min`, `${Math.floor(seconds % 60)} s`] : hours < 48 ? [`${hours} h`, `${minutes % 60} min`] : [`${Math.floor(hours / 24)} d`, `${hours % 24} h`]
  return small.startsWith('0 ') ? large : `${large} ${small}`
}

/** `3 min ago` or `in 2 h`. What is past is rounded down; what comes is rounded, so that two hours do not become one at once. */
export function formatRelative(at: number, now: number): string {
  const ago = now - at
  const amount = Math.abs(ago)
  const round = ago >= 0 ? Math.floor : Math.round
  const text =
    amount < 5_000 ? 'now'
    : amount < 59_500 ? `${round(amount / 1000)} s`
    : amount < 59.5 * 60_000 ? `${round(amount / 60_000) || 1} min`
    : amount < 23.5 * 3_600_000 ? `${round(amount / 3_600_000) || 1} h`
    : `${round(amount / 86_400_000) || 1} d`
  if (text === 'now') return text
  return ago >= 0 ? `${text} ago` : `in ${text}`
}

export function formatAbsolute(at: string | number | Date): string {
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? 'Invalid Date' : moment.format(date)
}

/** `step_limit` as words, and names that say little to people in other ones. */
export const words = (name: string) => (name === 'doom_loop' ? 'repeated the same call' : name === 'mcp_server' ? 'MCP server' : name.replaceAll('_', ' '))
export const capitalised = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
/** The last part of an id, which tells ids of one moment apart. */
export const shortId = (id: string) => id.slice(-8)

/** The title of a request as a sentence: texts of the server mark names with backticks. */
export const plainTitle = (item: { kind: string; title: string }) => (item.kind === 'escalation' ? capitalised(item.title.replaceAll('`', '')) : item.title)
