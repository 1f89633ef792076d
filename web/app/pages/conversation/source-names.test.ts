import { expect, it } from 'vitest'
import { type Citation, namedSources } from './source-names'

const person = (id: string, title: string): Citation => ({ kind: 'object', id, type: 'Person', title })
const knows = (id: string, fromId?: string, toId?: string): Citation => ({ kind: 'relationship', id, type: 'worked_with', fromId: fromId ?? null, toId: toId ?? null })
const names = (sources: Citation[]) => namedSources(sources).map(({ name, count }) => (count > 1 ? `${name} ×${count}` : name))

it('names a relationship by what it connects', () => {
  const people = [person('a', 'Ada'), person('b', 'Babbage')]
  expect(names([knows('r1', 'a', 'b'), ...people, knows('r2', 'b', 'x')])).toEqual(['Ada', 'Babbage', 'Ada worked with Babbage', 'Babbage worked with …'])
})

it('names a passage by its document and its position there', () => {
  const passage = (id: string, index?: number): Citation => ({ kind: 'chunk', id, documentId: 'd', title: 'House rules.md', index: index ?? null })
  expect(names([passage('1', 0), passage('2', 4)])).toEqual(['House rules.md, passage 1', 'House rules.md, passage 5'])
  // Answers of earlier versions have no positions.
  expect(names([passage('1'), passage('2')])).toEqual(['House rules.md ×2'])
})

it('shows what opens the same once, with a count', () => {
  const people = [person('a', 'Ada'), person('b', 'Babbage')]
  expect(names([...people, knows('r1', 'a', 'b'), knows('r2', 'a', 'b')])).toEqual(['Ada', 'Babbage', 'Ada worked with Babbage ×2'])
  expect(names([person('a', 'Ada'), person('a', 'Ada')])).toEqual(['Ada ×2'])
})

it('keeps sources of one name apart that open something else', () => {
  expect(names([person('a', 'Ada'), person('b', 'Ada')])).toEqual(['Ada', 'Ada'])
  expect(names([knows('r1'), knows('r2')])).toEqual(['worked with', 'worked with'])
  expect(names([knows('r1', 'a', 'b'), knows('r2', 'c', 'd')])).toEqual(['worked with', 'worked with'])
})
