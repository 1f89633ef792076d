import { expect, it } from 'vitest'
import type { Run } from '~/api/types'
import { againText, extractionStates, failureOf, type Firing } from './extraction-states'

const DOCUMENT = '0198c0de-0000-7000-8000-000000000001'
const firing = (agentName: string, more: Partial<Firing>): Firing => ({ id: agentName, agentName, event: 'on_document_ingested', entityId: DOCUMENT, status: 'admitted', createdAt: '2026-03-01T12:00:00Z', depth: 0, dueAt: '2026-03-01T12:00:00Z', ...more })
const run = (id: string, agentName: string, more: Partial<Run>) => ({ id, agentName, status: 'completed', createdAt: '2026-03-01T12:00:01Z', ...more }) as Run
const failure = (firings: Firing[], runs: Run[]) => {
  const state = extractionStates(firings, runs).get(DOCUMENT)
  return state && failureOf(state)
}

const refused = firing('extractor', { status: 'refused', reason: 'no model' })
const read = firing('digest', { runId: 'r1' })

it('shows the agent that could not read a document, whichever came first', () => {
  for (const firings of [[refused, read], [read, refused]]) expect(failure(firings, [run('r1', 'digest', {})])).toBe('no model')
  expect(failure([read], [run('r1', 'digest', { status: 'failed', errorMessage: 'No key.' })])).toBe('No key.')
})

it('shows the newest attempt of each agent', () => {
  const again = run('r2', 'extractor', { inputPreview: againText({ id: DOCUMENT, title: 'Notes '.repeat(60) }).slice(0, 200), createdAt: '2026-03-01T13:00:00Z' })
  expect(extractionStates([refused, read], [run('r1', 'digest', {}), again]).get(DOCUMENT)).toMatchObject({ run: { status: 'completed' } })
  // Runs of earlier versions were asked in other words.
  expect(failure([refused], [{ ...again, inputPreview: `Read the document “Notes” (${DOCUMENT}) again.` }])).toBeUndefined()
  expect(failure([refused], [{ ...again, createdAt: '2026-03-01T11:00:00Z' }])).toBe('no model')
})

it('says nothing of a document that nobody tried to read', () => {
  expect(extractionStates([firing('extractor', { event: 'on_entity_created', status: 'refused' })], [run('r1', 'digest', {})]).size).toBe(0)
})
