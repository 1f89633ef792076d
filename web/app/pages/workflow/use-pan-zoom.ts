import { type RefObject, useCallback, useEffect, useRef } from 'react'

type View = { x: number; y: number; scale: number }
const SCALES = { least: 0.08, most: 2 }
const MARGIN = 24
const CLICK_DISTANCE = 4

/**
 * Moves and scales one group of an SVG by its transform alone: nothing is rendered again. Dragging and the wheel move,
 * the wheel with Ctrl or ⌘ scales at the pointer.
 */
export function usePanZoom(svg: RefObject<SVGSVGElement | null>, group: RefObject<SVGGElement | null>, size: { width: number; height: number }) {
  const view = useRef<View>({ x: MARGIN, y: MARGIN, scale: 1 })
  const dragged = useRef(false)

  const apply = useCallback(() => {
    const { x, y, scale } = view.current
    group.current?.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${scale.toFixed(4)})`)
  }, [group])

  const scaleAt = useCallback(
    (factor: number, at?: { x: number; y: number }) => {
      const box = svg.current?.getBoundingClientRect()
      if (!box) return
      const point = at ?? { x: box.width / 2, y: box.height / 2 }
      const { x, y, scale } = view.current
      const next = Math.min(SCALES.most, Math.max(SCALES.least, scale * factor))
      view.current = { scale: next, x: point.x - ((point.x - x) * next) / scale, y: point.y - ((point.y - y) * next) / scale }
      apply()
    },
    [apply, svg],
  )

  /** Shows everything, but nothing larger than life and nothing too small to read: then its beginning. */
  const fit = useCallback(
    (smallest = 0.55) => {
      const box = svg.current?.getBoundingClientRect()
      if (!box || box.width === 0) return
      const all = Math.min((box.width - 2 * MARGIN) / size.width, (box.height - 2 * MARGIN) / size.height)
      const scale = Math.min(1, Math.max(smallest, all))
      const x = size.width * scale <= box.width - 2 * MARGIN ? (box.width - size.width * scale) / 2 : MARGIN
      view.current = { scale, x, y: (box.height - size.height * scale) / 2 }
      apply()
    },
    [apply, size.height, size.width, svg],
  )

  /** Moves as little as needed so that a rectangle is in sight. */
  const reveal = useCallback(
    (rect: { x: number; y: number; width: number; height: number }) => {
      const box = svg.current?.getBoundingClientRect()
      if (!box) return
      const { x, y, scale } = view.current
      const move = (offset: number, start: number, length: number, room: number) => {
        const [from, to] = [start * scale + offset, (start + length) * scale + offset]
        return from < MARGIN ? MARGIN - from : to > room - MARGIN ? room - MARGIN - to : 0
      }
      view.current = { scale, x: x + move(x, rect.x, rect.width, box.width), y: y + move(y, rect.y, rect.height, box.height) }
      apply()
    },
    [apply, svg],
  )

  useEffect(() => {
    const element = svg.current
    if (!element) return
    let from: { x: number; y: number } | undefined
    let start = { x: 0, y: 0 }
    const down = (event: PointerEvent) => {
      if (event.button !== 0) return
      from = start = { x: event.clientX, y: event.clientY }
      dragged.current = false
    }
    const move = (event: PointerEvent) => {
      if (!from) return
      if (!dragged.current && Math.hypot(event.clientX - start.x, event.clientY - start.y) < CLICK_DISTANCE) return
      if (!dragged.current) element.setPointerCapture(event.pointerId)
      dragged.current = true
      view.current.x += event.clientX - from.x
      view.current.y += event.clientY - from.y
      from = { x: event.clientX, y: event.clientY }
      apply()
    }
    const up = () => (from = undefined)
    const wheel = (event: WheelEvent) => {
      event.preventDefault()
      if (event.ctrlKey || event.metaKey) {
        const box = element.getBoundingClientRect()
        scaleAt(Math.exp(-event.deltaY / 300), { x: event.clientX - box.left, y: event.clientY - box.top })
        return
      }
      view.current.x -= event.shiftKey ? event.deltaY : event.deltaX
      view.current.y -= event.shiftKey ? 0 : event.deltaY
      apply()
    }
    element.addEventListener('pointerdown', down)
    element.addEventListener('pointermove', move)
    element.addEventListener('pointerup', up)
    element.addEventListener('pointercancel', up)
    element.addEventListener('wheel', wheel, { passive: false })
    return () => {
      element.removeEventListener('pointerdown', down)
      element.removeEventListener('pointermove', move)
      element.removeEventListener('pointerup', up)
      element.removeEventListener('pointercancel', up)
      element.removeEventListener('wheel', wheel)
    }
  }, [apply, scaleAt, svg])

  return { fit, reveal, scaleAt, wasDragged: useCallback(() => dragged.current, []) }
}
