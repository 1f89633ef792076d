import { expect, it } from 'vitest'
import { emptyDraft, settingsOf } from './trigger-draft'

it('keeps what the form of an event trigger does not show', () => {
  const before = { max_concurrent: 1, max_depth: 2, time_zone: 'UTC' }
  const draft = { ...emptyDraft('event'), types: 'Note' }
  expect(settingsOf(draft, before)).toEqual({ max_concurrent: 1, max_depth: 2, types: ['Note'] })
})

it('gives the limit of concurrent runs neither to a schedule nor to a workflow', () => {
  const before = { max_concurrent: 1 }
  expect(settingsOf(emptyDraft('schedule'), before)).not.toHaveProperty('max_concurrent')
  expect(settingsOf({ ...emptyDraft('event'), starts: 'workflow' }, before)).not.toHaveProperty('max_concurrent')
})
