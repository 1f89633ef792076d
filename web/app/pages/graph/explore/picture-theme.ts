// The colours of the picture, read from the tokens of the theme.
export type Theme = { surface: string; text: string; text2: string; raised: string; line: string; edge: string; faint: string; dimmed: string; accent: string }

export function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement)
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim()
  return { surface: token('surface'), text: token('text'), text2: token('text-2'), raised: token('raised'), line: token('line'), edge: token('idle-fill'), faint: token('line'), dimmed: token('line'), accent: token('accent') }
}

export type Shown = { x: number; y: number; size: number; label?: string | null; color: string }

const LONGEST = 28

/** Where a text of this width begins: in the middle of its node, but within the picture if the node is. */
const leftOf = (x: number, width: number, room: number) => (x < 0 || x > room ? x - width / 2 : Math.max(2, Math.min(x - width / 2, room - width - 2)))

/**
 * The names of nodes below them, each with a rim that keeps it readable on edges. One that would stand on another is
 * left out; larger nodes come first. `room` is the width of the picture.
 */
export function drawLabels(context: CanvasRenderingContext2D, nodes: readonly Shown[], fontSize: number, theme: Theme, room: number) {
  const taken: [left: number, right: number, baseline: number][] = []
  context.font = `${fontSize}px system-ui, sans-serif`
  context.lineJoin = 'round'
  context.lineWidth = 3
  context.strokeStyle = theme.surface
  context.fillStyle = theme.text
  for (const { label, x, y, size } of [...nodes].sort((a, b) => b.size - a.size)) {
    if (!label) continue
    const text = label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label
    const { width } = context.measureText(text)
    const left = leftOf(x, width, room)
    const baseline = y + size + fontSize + 1
    if (taken.some(([start, end, line]) => left < end && start < left + width && Math.abs(line - baseline) < fontSize + 2)) continue
    taken.push([left, left + width, baseline])
    context.strokeText(text, left, baseline)
    context.fillText(text, left, baseline)
  }
}

/** The whole name of a node that is selected or under the pointer, on a box over its label: the name is there once. */
export function drawHover(context: CanvasRenderingContext2D, data: Shown, fontSize: number, theme: Theme, room: number) {
  context.beginPath()
  context.arc(data.x, data.y, data.size + 3, 0, Math.PI * 2)
  context.strokeStyle = theme.accent
  context.lineWidth = 2
  context.stroke()
  if (!data.label) return
  context.font = `500 ${fontSize}px system-ui, sans-serif`
  const width = context.measureText(data.label).width
  const left = leftOf(data.x, width + 12, room)
  const top = data.y + data.size + 2
  context.beginPath()
  context.roundRect(left, top, width + 12, fontSize + 10, 5)
  context.fillStyle = theme.raised
  context.fill()
  context.strokeStyle = theme.line
  context.lineWidth = 1
  context.stroke()
  context.fillStyle = theme.text
  context.fillText(data.label, left + 6, top + fontSize / 2 + 5 + fontSize / 3)
}
