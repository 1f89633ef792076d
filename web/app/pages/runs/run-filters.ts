import type { RunFilters } from '~/api/queries'
import { oneOf, type RawSearch } from '~/hooks/use-url-state'
import { parseSince, parseTime, sinceTime } from '~/util/periods'

export const STATUSES = ['queued', 'running', 'waiting', 'completed', 'failed', 'paused', 'cancelled'] as const
export const REASONS = ['step_limit', 'timeout', 'error', 'doom_loop', 'budget', 'provider', 'truncated', 'empty', 'invalid_output', 'definition', 'flow'] as const
export const ORIGINS = ['trigger', 'schedule', 'event', 'spawn', 'flow', 'dispatch', 'chat', 'invoke', 'resume'] as const

export type RunSearch = {
  status: (typeof STATUSES)[number] | undefined
  agent: string | undefined
  reason: (typeof REASONS)[number] | undefined
  origin: (typeof ORIGINS)[number] | undefined
  /** A period such as `24h`, or a time. */
  since: string | undefined
  until: string | undefined
  root: 'true' | undefined
  q: string | undefined
}

/** Reads the filters of the URL. What is no valid value is ignored. */
export function parseRunSearch(raw: RawSearch): RunSearch {
  return {
    status: oneOf(STATUSES, raw.status),
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
