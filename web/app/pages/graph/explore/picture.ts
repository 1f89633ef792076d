// The picture of a graph: sigma draws it, a worker lays it out.
import Graph from 'graphology'
import Sigma from 'sigma'
import type { Relationship, TraversalNode } from '~/api/graph'
import { words } from '~/util/format'
import { colourOf, titleOf } from '~/util/objects'
import { drawHover, drawLabels, readTheme, type Shown, type Theme } from './picture-theme'
import { placeNew } from './place'
import type { LayoutAnswer, LayoutRequest } from './layout.worker'

export type PictureHandlers = { onClick: (id: string) => void; onDoubleClick: (id: string) => void; onBackground: () => void }

/** Up to this many nodes the picture moves while it is laid out, and edges have their words. */
const FEW = 1000
/** Below this width, on a telephone, names are smaller and fewer edges have words. */
const NARROW = 480
/** A second click within this time opens instead of expanding. */
const DOUBLE_CLICK = 260
const DIMMED_SIZE = 0.6

const emptyGraph = () => new Graph({ multi: true, type: 'directed' })

export class Picture {
  #graph = emptyGraph()
  readonly #sigma: Sigma
  readonly #worker: Worker
  readonly #observer: MutationObserver
  readonly #sizes: ResizeObserver
  /** The names to draw once all that may be drawn are known. */
  #labels: Shown[] = []
  #theme: Theme
  #request = 0
  #order: string[] = []
  #waiting: LayoutAnswer | undefined
  #movedAt = 0
  #click: ReturnType<typeof setTimeout> | undefined
  #selected: string | undefined
  #near: ReadonlySet<string> | undefined
  #found: ReadonlySet<string> | undefined

  constructor(container: HTMLElement, handlers: PictureHandlers) {
    this.#theme = readTheme()
    this.#sigma = new Sigma(this.#graph, container, {
      hideEdgesOnMove: true,
      hideLabelsOnMove: false,
      renderEdgeLabels: false,
      labelFont: 'system-ui, sans-serif',
      // A container may have no size for a moment; the picture is drawn when it has one.
      allowInvalidContainer: true,
      labelDensity: 0.6,
      labelRenderedSizeThreshold: 5,
      edgeLabelSize: 10,
      edgeLabelFont: 'system-ui, sans-serif',
      defaultEdgeType: 'arrow',
      zIndex: true,
      minCameraRatio: 0.02,
      maxCameraRatio: 4,
      defaultDrawNodeLabel: (_context, data) => void this.#labels.push(data),
      defaultDrawNodeHover: (context, data, settings) => drawHover(context, data, settings.labelSize, this.#theme, container.offsetWidth),
      nodeReducer: (id, data) => this.#look(id, data),
      edgeReducer: (id, data) => this.#edgeLook(id, data),
    })
    this.#sigma.on('afterRender', () => {
      const context = this.#sigma.getCanvases().labels?.getContext('2d')
      if (context) drawLabels(context, this.#labels, this.#sigma.getSetting('labelSize'), this.#theme, container.offsetWidth)
      this.#labels = []
    })
    // It tells the first size as well.
    this.#sizes = new ResizeObserver(() => this.#sigma.setSettings(this.#fitting()))
    this.#sizes.observe(container)
    this.#applyTheme()
    this.#observer = new MutationObserver(() => this.#applyTheme())
    this.#observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
    this.#worker = new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' })
    this.#worker.addEventListener('message', (event: MessageEvent<LayoutAnswer>) => this.#receive(event.data))
    this.#sigma.getCamera().on('updated', () => (this.#movedAt = performance.now()))
    this.#sigma.on('clickNode', ({ node }) => {
      clearTimeout(this.#click)
      this.#click = setTimeout(() => handlers.onClick(node), DOUBLE_CLICK)
    })
    this.#sigma.on('doubleClickNode', ({ node, preventSigmaDefault }) => {
      preventSigmaDefault()
      clearTimeout(this.#click)
      handlers.onDoubleClick(node)
    })
    this.#sigma.on('clickStage', () => handlers.onBackground())
    container.dataset.nodes = '0'
  }

  /** Shows these nodes and edges. Those that are there already keep their place. */
  update(root: string, nodes: readonly TraversalNode[], edges: readonly Relationship[]) {
    // A new graph, because sigma would draw after each node that is added to the one it has.
    const old = this.#graph
    const graph = emptyGraph()
    const places = placeNew(nodes, edges, (id) => (old.hasNode(id) ? (old.getNodeAttributes(id) as { x: number; y: number }) : undefined))
    const degrees = new Map<string, number>()
    for (const edge of edges) for (const end of [edge.fromId, edge.toId]) degrees.set(end, (degrees.get(end) ?? 0) + 1)
    const isLarge = nodes.length > FEW
    for (const node of nodes) {
      const size = node.id === root ? 13 : Math.min(11, (isLarge ? 2.5 : 6) + Math.sqrt(degrees.get(node.id) ?? 0) * (isLarge ? 0.5 : 1))
      const { x, y } = places.get(node.id)!
      graph.addNode(node.id, { x, y, label: titleOf(node), color: colourOf(node.type), size })
    }
    for (const edge of edges) {
      graph.addEdgeWithKey(edge.id, edge.fromId, edge.toId, { label: words(edge.type), size: isLarge ? 0.5 : 1.5 })
    }
    const isSame = graph.order === old.order && graph.size === old.size && old.everyNode((id) => graph.hasNode(id)) && old.everyEdge((id) => graph.hasEdge(id))
    this.#graph = graph
    this.#mark(this.#selected)
    // First the graph: every other change may draw at once, and what is drawn has to be in it. It reads every node and
    // edge once; a setting would do so again.
    this.#sigma.setGraph(graph)
    const hasWords = this.#fitting().renderEdgeLabels
    if (this.#sigma.getSetting('renderEdgeLabels') !== hasWords) this.#sigma.setSetting('renderEdgeLabels', hasWords)
    this.#sigma.getContainer().dataset.nodes = String(graph.order)
    if (!isSame) this.#layOut()
  }

  /** Marks a node and what it is connected with. */
  select(id: string | undefined) {
    const before = this.#selected
    this.#mark(id)
    if (this.#selected !== before) this.#sigma.refresh({ skipIndexation: true, schedule: true })
  }

  #mark(id: string | undefined) {
    this.#selected = id !== undefined && this.#graph.hasNode(id) ? id : undefined
    this.#near = this.#selected ? new Set([this.#selected, ...this.#graph.neighbors(this.#selected)]) : undefined
  }

  /** Marks the nodes that a search within the picture found. */
  setFound(found: ReadonlySet<string> | undefined) {
    if (found === this.#found) return
    this.#found = found
    this.#sigma.refresh({ skipIndexation: true, schedule: true })
  }

  focus(id: string) {
    const place = this.#sigma.getNodeDisplayData(id)
    const camera = this.#sigma.getCamera()
    if (place) void camera.animate({ x: place.x, y: place.y, ratio: Math.min(camera.ratio, 0.6) }, { duration: 200 })
  }

  zoom(direction: 'in' | 'out' | 'all') {
    const camera = this.#sigma.getCamera()
    if (direction === 'all') void camera.animatedReset({ duration: 200 })
    else if (direction === 'in') void camera.animatedZoom({ duration: 150 })
    else void camera.animatedUnzoom({ duration: 150 })
  }

  destroy() {
    clearTimeout(this.#click)
    this.#observer.disconnect()
    this.#sizes.disconnect()
    this.#worker.terminate()
    this.#sigma.kill()
  }

  /** The settings that depend on the room there is, and on how much is in it. */
  #fitting() {
    const [labelSize, stagePadding, maxWords] = this.#sigma.getContainer().offsetWidth < NARROW ? [11, 32, 8] : [12, 70, 80]
    return { labelSize, stagePadding, renderEdgeLabels: this.#graph.size <= maxWords! }
  }

  #isDimmed(id: string) {
    return (this.#found !== undefined && !this.#found.has(id)) || (this.#found === undefined && this.#near !== undefined && !this.#near.has(id))
  }

  #look(id: string, data: Record<string, unknown>) {
    if (this.#isDimmed(id)) return { ...data, color: this.#theme.dimmed, label: null, size: (data.size as number) * DIMMED_SIZE, zIndex: 0 }
    if (id === this.#selected) return { ...data, highlighted: true, zIndex: 2 }
    return this.#found ? { ...data, forceLabel: this.#found.size < 40, zIndex: 1 } : data
  }

  #edgeLook(id: string, data: Record<string, unknown>) {
    const [from, to] = this.#graph.extremities(id)
    if (this.#isDimmed(from) || this.#isDimmed(to)) return { ...data, hidden: this.#graph.order > FEW, color: this.#theme.faint, label: null }
    return this.#selected && (from === this.#selected || to === this.#selected) ? { ...data, color: this.#theme.accent, zIndex: 1 } : data
  }

  #applyTheme() {
    this.#theme = readTheme()
    this.#sigma.setSettings({ labelColor: { color: this.#theme.text }, edgeLabelColor: { color: this.#theme.text2 }, defaultEdgeColor: this.#theme.edge })
  }

  #layOut() {
    this.#order = this.#graph.nodes()
    const places = new Map(this.#order.map((id, index) => [id, index]))
    const positions = new Float32Array(this.#order.length * 2)
    this.#graph.forEachNode((id, { x, y }) => positions.set([x as number, y as number], places.get(id)! * 2))
    const edges = new Uint32Array(this.#graph.size * 2)
    let next = 0
    this.#graph.forEachEdge((_id, _data, from, to) => edges.set([places.get(from)!, places.get(to)!], 2 * next++))
    const isLarge = this.#order.length > FEW
    const isStill = isLarge || matchMedia('(prefers-reduced-motion: reduce)').matches
    const request: LayoutRequest = { id: ++this.#request, positions, edges, iterations: isLarge ? 60 : 400, pause: isStill ? 1200 : 40 }
    this.#sigma.getContainer().dataset.layout = 'running'
    this.#worker.postMessage(request, [positions.buffer, edges.buffer])
  }

  #receive(answer: LayoutAnswer) {
    if (answer.id !== this.#request) return
    const isScheduled = this.#waiting !== undefined
    this.#waiting = answer
    if (!isScheduled) requestAnimationFrame(() => this.#place())
  }

  /** Moves the nodes, but not while somebody moves the picture. */
  #place() {
    const answer = this.#waiting
    if (!answer) return
    if (performance.now() - this.#movedAt < 150) {
      requestAnimationFrame(() => this.#place())
      return
    }
    this.#waiting = undefined
    if (answer.id !== this.#request) return
    const places = new Map(this.#order.map((id, index) => [id, index]))
    this.#graph.updateEachNodeAttributes(
      (id, data) => {
        const index = places.get(id)! * 2
        data.x = answer.positions[index]
        data.y = answer.positions[index + 1]
        return data
      },
      { attributes: ['x', 'y'] },
    )
    if (answer.isLast) this.#sigma.getContainer().dataset.layout = 'done'
  }
}
