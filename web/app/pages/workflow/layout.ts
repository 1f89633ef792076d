// Places the tasks of a workflow: each one in a layer after all of its blockers (longest path), and within the layers
// so that edges cross seldom (barycentres of the neighbours, some sweeps down and up).

export type LayoutNode = { id: string; blockedBy: readonly string[] }
export type Point = { x: number; y: number }
/** `index` is the place among all tasks, layer by layer. */
export type Placed = Point & { id: string; layer: number; index: number }
export type Edge = { from: string; to: string; points: [Point, Point] }
export type Layout = { nodes: Map<string, Placed>; edges: Edge[]; layers: string[][]; width: number; height: number; isDownward: boolean }

export const NODE = { width: 232, height: 56 }
/** The distances between layers, and between the tasks of one. */
const GAPS = { layer: { across: 72, down: 44 }, row: { across: 24, down: 20 } }
/** The shape of the room that a picture mostly has. */
const ROOM = { width: 640, height: 440 }
const SWEEPS = 4

let last: { shape: string; layout: Layout } | undefined

/** The layout of the tasks of a workflow. Only a new task or a new edge moves anything; a new status does not. */
export function layoutOf(tasks: readonly { key: string; blockedBy: readonly string[] }[]): Layout {
  const shape = JSON.stringify(tasks.map(({ key, blockedBy }) => [key, blockedBy]))
  if (last?.shape !== shape) {
    const start = performance.now()
    last = { shape, layout: layoutTasks(tasks.map(({ key, blockedBy }) => ({ id: key, blockedBy }))) }
    performance.measure('layout of tasks', { start })
  }
  return last.layout
}

/**
 * Lays out a graph downward or to the right, as it can be shown larger. Blockers that are not among the nodes, and edges
 * of a cycle, are left out.
 */
export function layoutTasks(tasks: readonly LayoutNode[]): Layout {
  const index = new Map(tasks.map((task, at) => [task.id, at]))
  const before = tasks.map((task) => unique(task.blockedBy.map((id) => index.get(id)).filter((at) => at !== undefined)))
  const layerOf = layerNumbers(before)
  const kept = before.map((blockers, at) => blockers.filter((blocker) => layerOf[blocker]! < layerOf[at]!))
  const after: number[][] = tasks.map(() => [])
  kept.forEach((blockers, at) => blockers.forEach((blocker) => after[blocker]!.push(at)))
  const layers = orderLayers(layerOf, kept, after)

  const longest = Math.max(1, ...layers.map((layer) => layer.length))
  const down = extent(layers.length, NODE.height, GAPS.layer.down, longest, NODE.width, GAPS.row.across)
  const right = extent(layers.length, NODE.width, GAPS.layer.across, longest, NODE.height, GAPS.row.down)
  const isDownward = Math.min(ROOM.width / down.across, ROOM.height / down.along) >= Math.min(ROOM.width / right.along, ROOM.height / right.across)
  const { along, across, layerStep, rowStep } = isDownward ? down : right

  const nodes = new Map<string, Placed>()
  layers.forEach((layer, number) => {
    const start = ((longest - layer.length) * rowStep) / 2
    layer.forEach((at, row) => {
      const id = tasks[at]!.id
      const [main, side] = [number * layerStep, start + row * rowStep]
      nodes.set(id, { id, layer: number, index: nodes.size, x: isDownward ? side : main, y: isDownward ? main : side })
    })
  })
  const edges = kept.flatMap((blockers, at) =>
    blockers.map((blocker): Edge => {
      const [from, to] = [nodes.get(tasks[blocker]!.id)!, nodes.get(tasks[at]!.id)!]
      const points: [Point, Point] = isDownward
        ? [{ x: from.x + NODE.width / 2, y: from.y + NODE.height }, { x: to.x + NODE.width / 2, y: to.y }]
        : [{ x: from.x + NODE.width, y: from.y + NODE.height / 2 }, { x: to.x, y: to.y + NODE.height / 2 }]
      return { from: from.id, to: to.id, points }
    }),
  )
  return { nodes, edges, layers: layers.map((layer) => layer.map((at) => tasks[at]!.id)), width: isDownward ? across : along, height: isDownward ? along : across, isDownward }
}

function extent(layerCount: number, thickness: number, layerGap: number, longest: number, breadth: number, rowGap: number) {
  const [layerStep, rowStep] = [thickness + layerGap, breadth + rowGap]
  return { layerStep, rowStep, along: Math.max(1, layerCount) * layerStep - layerGap, across: longest * rowStep - rowGap }
}

const unique = (values: number[]) => [...new Set(values)]

/** The longest path to each node; what is part of a cycle counts from where it was first reached. */
function layerNumbers(before: number[][]): number[] {
  const layer = before.map(() => -1)
  const state = new Uint8Array(before.length)
  for (let start = 0; start < before.length; start++) {
    if (state[start] === 2) continue
    // Depth first without recursion, so that a chain of any length is fine.
    const stack = [start]
    while (stack.length > 0) {
      const at = stack.at(-1)!
      if (state[at] === 0) {
        state[at] = 1
        for (const blocker of before[at]!) if (state[blocker] === 0) stack.push(blocker)
        continue
      }
      stack.pop()
      if (state[at] === 2) continue
      state[at] = 2
      layer[at] = 1 + Math.max(-1, ...before[at]!.map((blocker) => (state[blocker] === 2 ? layer[blocker]! : -1)))
    }
  }
  return layer
}

function orderLayers(layerOf: number[], before: number[][], after: number[][]): number[][] {
  const layers: number[][] = []
  layerOf.forEach((layer, at) => (layers[layer] ??= []).push(at))
  const place = new Float64Array(layerOf.length)
  const remember = (layer: number[]) => layer.forEach((at, row) => (place[at] = row - layer.length / 2))
  layers.forEach(remember)
  const weight = new Float64Array(layerOf.length)
  const sort = (layer: number[], neighbours: number[][]) => {
    for (const at of layer) {
      const near = neighbours[at]!
      let sum = 0
      for (const one of near) sum += place[one]!
      weight[at] = near.length > 0 ? sum / near.length : place[at]!
    }
    layer.sort((a, b) => weight[a]! - weight[b]! || place[a]! - place[b]!)
    remember(layer)
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (let at = 1; at < layers.length; at++) sort(layers[at]!, before)
    for (let at = layers.length - 2; at >= 0; at--) sort(layers[at]!, after)
  }
  for (let at = 1; at < layers.length; at++) sort(layers[at]!, before)
  return layers
}

/** A curve from one task to the next. */
export function edgePath([from, to]: [Point, Point], isDownward: boolean): string {
  if (isDownward) {
    const bend = Math.max(16, (to.y - from.y) / 2)
    return `M${from.x} ${from.y}C${from.x} ${from.y + bend} ${to.x} ${to.y - bend} ${to.x} ${to.y}`
  }
  const bend = Math.max(24, (to.x - from.x) / 2)
  return `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`
}

/** The tip of an edge. */
export const arrowPath = ([, to]: [Point, Point], isDownward: boolean) => (isDownward ? `M${to.x - 4} ${to.y - 6}L${to.x} ${to.y}L${to.x + 4} ${to.y - 6}Z` : `M${to.x - 6} ${to.y - 4}L${to.x} ${to.y}L${to.x - 6} ${to.y + 4}Z`)
