type Place = { x: number; y: number }
type Node = { id: string }
type Edge = { fromId: string; toId: string }

/** The angle between two neighbours that never repeats. */
const GOLDEN = Math.PI * (3 - Math.sqrt(5))

/** Puts each new node near one that has a place, always in the same way. */
export function placeNew(nodes: readonly Node[], edges: readonly Edge[], known: (id: string) => Place | undefined): Map<string, Place> {
  const near = new Map<string, string[]>()
  for (const { fromId, toId } of edges) {
    near.set(fromId, [...(near.get(fromId) ?? []).slice(-3), toId])
    near.set(toId, [...(near.get(toId) ?? []).slice(-3), fromId])
  }
  const places = new Map<string, Place>()
  const children = new Map<string, number>()
  const spread = 10 + Math.sqrt(nodes.length)
  nodes.forEach((node, index) => {
    const old = known(node.id)
    if (old) {
      places.set(node.id, old)
      return
    }
    const parent = near.get(node.id)?.find((id) => places.has(id) || known(id))
    const start = parent === undefined ? { x: 0, y: 0 } : (places.get(parent) ?? known(parent)!)
    const turn = parent === undefined ? index : (children.get(parent) ?? 0)
    if (parent !== undefined) children.set(parent, turn + 1)
    const radius = index === 0 ? 0 : spread * Math.sqrt(turn + 1)
    places.set(node.id, { x: start.x + radius * Math.cos(turn * GOLDEN + index), y: start.y + radius * Math.sin(turn * GOLDEN + index) })
  })
  return places
}
