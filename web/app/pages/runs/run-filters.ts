import type { RunFilters } from '~/api/queries'
import { oneOf, type RawSearch } from '~/hooks/use-url-state'
import { parseSince, parseTime, sinceTime } from '~/util/periods'

export const STATUSES = ['queued', 'running', 'waiting', 'completed', 'failed', 'paused', 'cancelled'] as const
export const REASONS = ['step_limit', 'timeout', 'error', 'doom_loop', 'budget', 'provider', 'truncated', 'empty', 'invalid_output', 'definition', 'flow', 'unknown_outcome'] as const
export const ORIGINS = ['trigger', 'schedule', 'event', 'spawn', 'flow', 'dispatch', 'chat', 'invoke', 'resume'] as const

export type RunSearch = {
  /** One status, or several with commas between them. */
  status: string | undefined
  agent: string | undefined
  reason: (typeof REASONS)[number] | undefined
  origin: (typeof ORIGINS)[number] | undefined
  /** A period such as `24h`, or a time. */
  since: string | undefined
  until: string | undefined
  root: 'true' | undefined
  q: string | undefined
}

/** The runs that are at work, or will be as soon as there is room. */
export const IN_PROGRESS = 'queued,running'

/** The statuses in the order of the list, each once, so that the same filter is the same text. */
function parseStatuses(raw: string | undefined): string | undefined {
  const named = raw?.split(',') ?? []
  return STATUSES.filter((status) => named.includes(status)).join(',') || undefined
}

/** Reads the filters of the URL. What is no valid value is ignored. */
export function parseRunSearch(raw: RawSearch): RunSearch {
  return {
    status: parseStatuses(raw.status),
    agent: raw.agent || undefined,
    reason: oneOf(REASONS, raw.reason),
    origin: oneOf(ORIGINS, raw.origin),
    since: parseSince(raw.since),
    until: parseTime(raw.until),
    root: oneOf(['true'], raw.root),
    q: raw.q?.slice(0, 200) || undefined,
  }
}

/** The filters as the API takes them. A period counts from `now`. */
export function toRunFilters(search: RunSearch, now: number): RunFilters {
  const { since, until, root, ...rest } = search
  const filters: RunFilters = { ...rest }
  if (since) filters.since = sinceTime(since, now)
  if (until) filters.until = new Date(until).toISOString()
  if (root) filters.root = true
  for (const key of Object.keys(filters) as (keyof RunFilters)[]) if (filters[key] === undefined) delete filters[key]
  return filters
}

/** The statuses that an action can change; the API refuses a filter with any other. */
const APPLIES = { cancel: ['queued', 'running', 'waiting'], resume: ['paused'] }

/** The filters of a bulk action: those of the list, with only the statuses to which it applies. Undefined if none is left. */
export function bulkFilters(action: keyof typeof APPLIES, filters: RunFilters): RunFilters | undefined {
  if (!filters.status) return filters
  const status = filters.status.split(',').filter((one) => APPLIES[action].includes(one)).join(',')
  return status ? { ...filters, status } : undefined
}
