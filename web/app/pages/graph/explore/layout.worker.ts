// The layout, apart from the page: it never takes time from drawing. The policy of the server allows a worker from a
// file only, so the worker that the library would make of a blob is not used.
import iterate from 'graphology-layout-forceatlas2/iterate.js'

export type LayoutRequest = {
  id: number
  /** x and y of each node. */
  positions: Float32Array
  /** The indexes of both ends of each edge. */
  edges: Uint32Array
  iterations: number
  /** Milliseconds between two answers. */
  pause: number
}
export type LayoutAnswer = { id: number; positions: Float32Array; isLast: boolean }

// The places in the matrices of the library.
const NODE = 10
const EDGE = 3
const MASS = 6
const CONVERGENCE = 7
const SIZE = 8

let newest = 0

function settingsFor(count: number): Record<string, number | boolean> {
  return {
    linLogMode: false,
    outboundAttractionDistribution: false,
    adjustSizes: false,
    edgeWeightInfluence: 0,
    scalingRatio: 10,
    strongGravityMode: true,
    gravity: count > 1000 ? 0.02 : 0.08,
    slowDown: 1 + Math.log(count),
    barnesHutOptimize: count > 400,
    barnesHutTheta: 0.8,
  }
}

function matrices({ positions, edges }: LayoutRequest) {
  const count = positions.length / 2
  const nodes = new Float32Array(count * NODE)
  for (let index = 0; index < count; index++) {
    nodes[index * NODE] = positions[index * 2]!
    nodes[index * NODE + 1] = positions[index * 2 + 1]!
    nodes[index * NODE + MASS] = 1
    nodes[index * NODE + CONVERGENCE] = 1
    nodes[index * NODE + SIZE] = 1
  }
  const links = new Float32Array((edges.length / 2) * EDGE)
  for (let index = 0; index < edges.length / 2; index++) {
    const from = edges[index * 2]! * NODE
    const to = edges[index * 2 + 1]! * NODE
    links.set([from, to, 1], index * EDGE)
    nodes[from + MASS]! += 1
    nodes[to + MASS]! += 1
  }
  return { nodes, links, count }
}

function answer(id: number, nodes: Float32Array, count: number, isLast: boolean) {
  const positions = new Float32Array(count * 2)
  for (let index = 0; index < count; index++) {
    positions[index * 2] = nodes[index * NODE]!
    positions[index * 2 + 1] = nodes[index * NODE + 1]!
  }
  postMessage({ id, positions, isLast } satisfies LayoutAnswer, { transfer: [positions.buffer] })
}

async function lay(request: LayoutRequest) {
  const { nodes, links, count } = matrices(request)
  const settings = settingsFor(count)
  let told = performance.now()
  for (let step = 0; step < request.iterations; step++) {
    iterate(settings, nodes, links)
    if (performance.now() - told < request.pause) continue
    answer(request.id, nodes, count, false)
    // A newer request ends this one.
    await new Promise((resolve) => setTimeout(resolve))
    if (newest !== request.id) return
    told = performance.now()
  }
  answer(request.id, nodes, count, true)
}

addEventListener('message', (event: MessageEvent<LayoutRequest>) => {
  newest = event.data.id
  void lay(event.data)
})
