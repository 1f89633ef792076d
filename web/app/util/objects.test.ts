import { expect, it } from 'vitest'
import { colourOf, summaryOf, titleOf } from './objects'

const MEMORY = ['Person', 'Organization', 'Place', 'Event', 'Concept']

it('gives a type the same colour, whichever types were seen before', () => {
  const first = MEMORY.map(colourOf)
  expect([...MEMORY].reverse().map(colourOf).reverse()).toEqual(first)
  expect(first).toEqual(['#6a81f2', '#08a576', '#017890', '#707102', '#d05ba5'])
  expect(new Set(first).size).toBe(MEMORY.length)
})

it('has a colour for any name', () => {
  for (const type of ['', 'x', 'Ärztin', '部署', 'RegulatoryCorrespondenceRecord']) expect(colourOf(type)).toMatch(/^#[0-9a-f]{6}$/)
})

it('says about an object what its name does not', () => {
  const review = { id: '1', properties: { summary: 'All checks pass.', verdict: 'PASS', run_id: '01a1f19f-5799-74f1-a2a7-6eac33d04c15', issues: [], tools_used: ['read', 'write'], findings: { schemas: ['Document'], gaps: 2 } } }
  expect(titleOf(review)).toBe('All checks pass.')
  expect(summaryOf(review)).toBe('verdict: PASS · tools used: read, write · findings: schemas, gaps')
  expect(summaryOf({ id: '2', properties: { name: 'Z3', description: 'A computer of 2,600 relays.' } })).toBe('A computer of 2,600 relays.')
})
