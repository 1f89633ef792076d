import { expect, it } from 'vitest'
import { edgePath, layoutTasks, type LayoutNode } from './layout'

const task = (id: string, ...blockedBy: string[]): LayoutNode => ({ id, blockedBy })

/** 1,000 tasks with about 1,900 edges to tasks before them, always the same. */
function large(): LayoutNode[] {
  let state = 7
  const random = (below: number) => (state = (state * 1103515245 + 12345) % 2147483648) % below
  return Array.from({ length: 1000 }, (_, at) => {
    const count = at === 0 ? 0 : Math.min(at, at % 10 === 9 ? 1 : 2)
    return task(`t${at}`, ...new Set(Array.from({ length: count }, () => `t${Math.max(0, at - 1 - random(60))}`)))
  })
}

it('places each task after all of its blockers, by the longest path', () => {
  const { nodes, layers } = layoutTasks([task('test', 'write'), task('write', 'design', 'research'), task('design', 'research'), task('research'), task('note')])
  expect(layers.map((layer) => [...layer].sort())).toEqual([['note', 'research'], ['design'], ['write'], ['test']])
  expect(nodes.get('write')!.y).toBeGreaterThan(nodes.get('design')!.y)
})

it('orders layers so that parallel chains do not cross', () => {
  const { nodes } = layoutTasks([task('a'), task('b'), task('b2', 'b'), task('a2', 'a'), task('a3', 'a2'), task('b3', 'b2')])
  const isAfter = (one: string, other: string) => nodes.get(other)!.x + nodes.get(other)!.y > nodes.get(one)!.x + nodes.get(one)!.y
  const order = isAfter('a', 'b')
  expect(isAfter('a2', 'b2')).toBe(order)
  expect(isAfter('a3', 'b3')).toBe(order)
})

it('leaves out unknown blockers and one edge of a cycle, and places every task', () => {
  const { nodes, edges } = layoutTasks([task('a', 'b', 'elsewhere'), task('b', 'a'), task('c', 'c')])
  expect(nodes.size).toBe(3)
  expect(edges).toHaveLength(1)
})

it('draws nothing twice on the same place', () => {
  const { nodes } = layoutTasks(large())
  expect(new Set([...nodes.values()].map(({ x, y }) => `${x},${y}`)).size).toBe(1000)
})

it('lays out nothing', () => {
  expect(layoutTasks([]).nodes.size).toBe(0)
})

it('goes down when the graph is long and to the right when it is broad', () => {
  expect(layoutTasks([task('a'), task('b', 'a'), task('c', 'b'), task('d', 'c')]).isDownward).toBe(true)
  expect(layoutTasks([task('a'), ...['b', 'c', 'd', 'e', 'f', 'g', 'h'].map((id) => task(id, 'a'))]).isDownward).toBe(false)
})

it('draws an edge as a curve', () => {
  expect(edgePath([{ x: 0, y: 1 }, { x: 100, y: 2 }], false)).toBe('M0 1C50 1 50 2 100 2')
  expect(edgePath([{ x: 0, y: 0 }, { x: 50, y: 100 }], true)).toBe('M0 0C0 50 50 50 50 100')
})

it('lays out 1,000 tasks with 1,900 edges in 50 ms', () => {
  const tasks = large()
  expect(layoutTasks(tasks).edges.length).toBeGreaterThan(1800)
  const times = Array.from({ length: 7 }, () => {
    const start = performance.now()
    layoutTasks(tasks)
    return performance.now() - start
  })
  expect(Math.min(...times)).toBeLessThan(50)
})

it('lays out a chain of 1,000 tasks', () => {
  const chain = Array.from({ length: 1000 }, (_, at) => (at === 0 ? task('0') : task(`${at}`, `${at - 1}`))).reverse()
  expect(layoutTasks(chain).layers).toHaveLength(1000)
})
