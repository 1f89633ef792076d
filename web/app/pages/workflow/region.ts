// Which part of a large picture is in the document. What is far outside the window is left out, and what is too small
// to be read is drawn without its words: then a thousand tasks cost as much as a screen full of them.
import type { Edge, Point } from './layout'
import { NODE } from './layout'

/** Up to this many tasks all of them are in the document. */
export const FEW = 150
/** Below this scale words cannot be read. */
const READABLE = 0.35
/** Regions grow in steps of this size, so that a move changes them seldom and by little. */
const STEP = { x: NODE.width * 2, y: NODE.height * 4 }

/** `isFar` says that words are left out. */
export type Region = { isFar: boolean; left: number; top: number; right: number; bottom: number }

/** What is seen and a step around it. From far away it is everything. */
export function regionOf(view: Point & { scale: number }, box: { width: number; height: number }): Region {
  if (view.scale < READABLE) return { isFar: true, left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity }
  const down = (value: number, step: number) => (Math.floor(value / step) - 1) * step
  const up = (value: number, step: number) => (Math.ceil(value / step) + 1) * step
  const { x, y, scale } = view
  return { isFar: false, left: down(-x / scale, STEP.x), top: down(-y / scale, STEP.y), right: up((box.width - x) / scale, STEP.x), bottom: up((box.height - y) / scale, STEP.y) }
}

export const isSameRegion = (one: Region | undefined, other: Region) =>
  one !== undefined && one.isFar === other.isFar && one.left === other.left && one.top === other.top && one.right === other.right && one.bottom === other.bottom

/** Half as much again on each side: edges are one path, which is made again only when what is seen leaves this. */
export function withRoom({ isFar, left, top, right, bottom }: Region): Region {
  const [x, y] = [(right - left) / 2, (bottom - top) / 2]
  return { isFar, left: left - x, top: top - y, right: right + x, bottom: bottom + y }
}

export const covers = (outer: Region | undefined, inner: Region) =>
  outer !== undefined && outer.isFar === inner.isFar && outer.left <= inner.left && outer.top <= inner.top && outer.right >= inner.right && outer.bottom >= inner.bottom

export const holdsNode = ({ left, top, right, bottom }: Region, { x, y }: Point) => x < right && y < bottom && x + NODE.width > left && y + NODE.height > top

/** Whether the rectangle around an edge meets the region; a curve stays close to it. */
export function holdsEdge({ left, top, right, bottom }: Region, { points: [from, to] }: Edge): boolean {
  return Math.min(from.x, to.x) < right && Math.max(from.x, to.x) > left && Math.min(from.y, to.y) < bottom && Math.max(from.y, to.y) > top
}

/** The task at a point. */
export function taskAt<T extends Point>(nodes: Iterable<T>, { x, y }: Point): T | undefined {
  for (const node of nodes) if (x >= node.x && x <= node.x + NODE.width && y >= node.y && y <= node.y + NODE.height) return node
  return undefined
}
