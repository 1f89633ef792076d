import { expect, it } from 'vitest'
import { placeNew } from './place'

it('keeps the places that are known and puts new nodes beside a neighbour, each in a place of its own', () => {
  const nodes = [{ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'd' }]
  const edges = [
    { fromId: 'a', toId: 'b' },
    { fromId: 'a', toId: 'c' },
    { fromId: 'd', toId: 'a' },
  ]
  const places = placeNew(nodes, edges, (id) => (id === 'a' ? { x: 500, y: 500 } : undefined))
  expect(places.get('a')).toEqual({ x: 500, y: 500 })
  expect(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size).toBe(4)
  for (const id of ['b', 'c', 'd']) expect(Math.hypot(places.get(id)!.x - 500, places.get(id)!.y - 500)).toBeLessThan(100)
})
