// The colours of the picture, read from the tokens of the theme.
export type Theme = { surface: string; text: string; text2: string; raised: string; line: string; edge: string; faint: string; dimmed: string; accent: string }

export function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement)
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim()
  return { surface: token('surface'), text: token('text'), text2: token('text-2'), raised: token('raised'), line: token('line'), edge: token('idle-fill'), faint: token('line'), dimmed: token('line'), accent: token('accent') }
}

type Shown = { x: number; y: number; size: number; label?: string | null; color: string }

const LONGEST = 28

/** The name of a node below it, with a rim that keeps it readable on edges. */
export function drawLabel(context: CanvasRenderingContext2D, data: Shown, fontSize: number, theme: Theme) {
  if (!data.label) return
  const text = data.label.length > LONGEST ? `${data.label.slice(0, LONGEST - 1)}…` : data.label
  context.font = `${fontSize}px system-ui, sans-serif`
  const left = data.x - context.measureText(text).width / 2
  const top = data.y + data.size + fontSize + 1
  context.lineJoin = 'round'
  context.lineWidth = 3
  context.strokeStyle = theme.surface
  context.strokeText(text, left, top)
  context.fillStyle = theme.text
  context.fillText(text, left, top)
}

/** The whole name of a node that is selected or under the pointer, on a box over its label: the name is there once. */
export function drawHover(context: CanvasRenderingContext2D, data: Shown, fontSize: number, theme: Theme) {
  context.beginPath()
  context.arc(data.x, data.y, data.size + 3, 0, Math.PI * 2)
  context.strokeStyle = theme.accent
  context.lineWidth = 2
  context.stroke()
  if (!data.label) return
  context.font = `500 ${fontSize}px system-ui, sans-serif`
  const width = context.measureText(data.label).width
  const left = data.x - width / 2 - 6
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
