import { expect, it } from 'vitest'
import { bulkFilters, IN_PROGRESS, parseRunSearch, toRunFilters } from './run-filters'

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
