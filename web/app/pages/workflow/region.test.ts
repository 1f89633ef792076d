import { expect, it } from 'vitest'
import { layoutTasks } from './layout'
import { covers, holdsEdge, holdsNode, isSameRegion, regionOf, taskAt, withRoom } from './region'

const BOX = { width: 800, height: 500 }
const tasks = Array.from({ length: 1000 }, (_, at) => ({ id: `t${at}`, blockedBy: at === 0 ? [] : [`t${Math.max(0, at - 1 - ((at * 7) % 40))}`] }))
const { nodes, edges } = layoutTasks(tasks)

it('holds everything that is seen and little besides', () => {
  const view = { x: -2000, y: -300, scale: 0.55 }
  const region = regionOf(view, BOX)
  const held = [...nodes.values()].filter((node) => holdsNode(region, node))
  for (const node of nodes.values()) {
    const [x, y] = [node.x * view.scale + view.x, node.y * view.scale + view.y]
    if (x > 0 && x < BOX.width && y > 0 && y < BOX.height) expect(held).toContain(node)
  }
  expect(held.length).toBeGreaterThan(0)
  expect(held.length).toBeLessThan(250)
  for (const edge of edges) if (edge.points.some(({ x, y }) => x > region.left && x < region.right && y > region.top && y < region.bottom)) expect(holdsEdge(region, edge)).toBe(true)
})

it('stays the same while the picture moves a little', () => {
  const region = regionOf({ x: -1000, y: -300, scale: 1 }, BOX)
  expect(isSameRegion(region, regionOf({ x: -1010, y: -305, scale: 1 }, BOX))).toBe(true)
  expect(isSameRegion(region, regionOf({ x: -3000, y: -305, scale: 1 }, BOX))).toBe(false)
  expect(isSameRegion(undefined, region)).toBe(false)
})

it('has room around it for edges, until what is seen leaves it', () => {
  const region = regionOf({ x: -2000, y: -300, scale: 1 }, BOX)
  const room = withRoom(region)
  expect([covers(room, region), covers(undefined, region)]).toEqual([true, false])
  expect(covers(room, regionOf({ x: -2500, y: -400, scale: 1 }, BOX))).toBe(true)
  expect(covers(room, regionOf({ x: -6000, y: -300, scale: 1 }, BOX))).toBe(false)
  const far = regionOf({ x: 0, y: 0, scale: 0.1 }, BOX)
  expect([covers(room, far), covers(withRoom(far), far)]).toEqual([false, true])
})

it('is everything from far away', () => {
  const region = regionOf({ x: 0, y: 0, scale: 0.1 }, BOX)
  expect(region.isFar).toBe(true)
  expect([...nodes.values()].every((node) => holdsNode(region, node))).toBe(true)
})

it('finds the task at a point', () => {
  const some = nodes.get('t500')!
  expect(taskAt(nodes.values(), { x: some.x + 5, y: some.y + 5 })?.id).toBe('t500')
  expect(taskAt(nodes.values(), { x: -50, y: 0 })).toBeUndefined()
})
