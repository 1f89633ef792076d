import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { bulkFilters, IN_PROGRESS, ORIGINS, parseRunSearch, REASONS, STATUSES, toRunFilters } from './run-filters'

it('reads several statuses of the URL in one order, and ignores what is none', () => {
  expect(parseRunSearch({ status: 'running,queued' }).status).toBe(IN_PROGRESS)
  expect(parseRunSearch({ status: 'failed' }).status).toBe('failed')
  expect(parseRunSearch({ status: 'dreaming' }).status).toBeUndefined()
  expect(toRunFilters(parseRunSearch({ status: 'queued,dreaming,running' }), 0)).toEqual({ status: IN_PROGRESS })
})

it('sends a bulk action only the statuses to which it applies', () => {
  expect(bulkFilters('cancel', { status: 'running,failed', agent: 'a' })).toEqual({ status: 'running', agent: 'a' })
  expect(bulkFilters('resume', { status: 'failed,paused' })).toEqual({ status: 'paused' })
  expect(bulkFilters('resume', { status: 'failed,running' })).toBeUndefined()
  expect(bulkFilters('cancel', { agent: 'a' })).toEqual({ agent: 'a' })
})

const NOW = Date.parse('2026-11-17T08:00:00Z')
const sentFor = (raw: Record<string, string>) => toRunFilters(parseRunSearch(raw), NOW)

it('sends each filter of the URL as the API takes it', () => {
  for (const status of STATUSES) expect(sentFor({ status })).toEqual({ status })
  for (const reason of REASONS) expect(sentFor({ reason })).toEqual({ reason })
  for (const origin of ORIGINS) expect(sentFor({ origin })).toEqual({ origin })
  expect(sentFor({ agent: 'contract-auditor' })).toEqual({ agent: 'contract-auditor' })
  expect(sentFor({ q: 'note G' })).toEqual({ q: 'note G' })
  expect(sentFor({ root: 'true' })).toEqual({ root: true })
  expect(sentFor({ reason: 'timeout', origin: 'chat', root: 'true', q: 'tea' })).toEqual({ reason: 'timeout', origin: 'chat', root: true, q: 'tea' })
})

it('counts a period back from now, and takes moments in any time zone', () => {
  expect(sentFor({ since: '1h' })).toEqual({ since: '2026-11-17T07:00:00.000Z' })
  expect(sentFor({ since: '24h' })).toEqual({ since: '2026-11-16T08:00:00.000Z' })
  expect(sentFor({ since: '7d' })).toEqual({ since: '2026-11-10T08:00:00.000Z' })
  expect(sentFor({ since: '2026-11-01T00:00:00+02:00', until: '2026-11-02T12:30:00Z' })).toEqual({ since: '2026-10-31T22:00:00.000Z', until: '2026-11-02T12:30:00.000Z' })
})

it('ignores what the URL has for a filter and is no value of it', () => {
  for (const raw of [{ reason: 'boredom' }, { origin: 'nowhere' }, { since: '2h' }, { until: '24h' }, { until: 'tomorrow' }, { root: 'false' }, { agent: '' }, { q: '' }] as Record<string, string>[]) expect(sentFor(raw), JSON.stringify(raw)).toEqual({})
  // The API takes no longer text.
  expect(sentFor({ q: 'a'.repeat(300) }).q).toHaveLength(200)
})

it('has an entry for everything that the API can filter by', () => {
  const { components } = JSON.parse(readFileSync('../docs/openapi.json', 'utf8')) as { components: { schemas: Record<string, { enum: string[] }> } }
  const valuesOf = (name: string) => components.schemas[name]!.enum.toSorted()
  expect(STATUSES.toSorted()).toEqual(valuesOf('RunStatus'))
  expect(REASONS.toSorted()).toEqual(valuesOf('Reason'))
  expect(ORIGINS.toSorted()).toEqual(valuesOf('Origin'))
})
