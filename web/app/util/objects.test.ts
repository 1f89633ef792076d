import { expect, it } from 'vitest'
import { colourOf } from './objects'

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
