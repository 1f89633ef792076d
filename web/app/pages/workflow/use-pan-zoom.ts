import { type RefObject, useCallback, useEffect, useRef } from 'react'

export type View = { x: number; y: number; scale: number }
type Box = { width: number; height: number }
type Size = { width: number; height: number; isDownward: boolean }
const SCALES = { least: 0.08, most: 2 }
const MARGIN = 24
const CLICK_DISTANCE = 4

/**
 * Moves and scales one group of an SVG by its transform alone: nothing is rendered again. Dragging and the wheel move,
 * the wheel with Ctrl or ⌘ scales at the pointer. `onView` hears what is seen after each move.
 */
export function usePanZoom(svg: RefObject<SVGSVGElement | null>, group: RefObject<SVGGElement | null>, size: Size, onView: (view: View, box: Box) => void) {
  const view = useRef<View>({ x: MARGIN, y: MARGIN, scale: 1 })
  const box = useRef<Box>({ width: 0, height: 0 })
  const dragged = useRef(false)

  const apply = useCallback(() => {
    const { x, y, scale } = view.current
    group.current?.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${scale.toFixed(4)})`)
    onView(view.current, box.current)
  }, [group, onView])

  const scaleAt = useCallback(
    (factor: number, at?: { x: number; y: number }) => {
      const point = at ?? { x: box.current.width / 2, y: box.current.height / 2 }
      const { x, y, scale } = view.current
      const next = Math.min(SCALES.most, Math.max(SCALES.least, scale * factor))
      view.current = { scale: next, x: point.x - ((point.x - x) * next) / scale, y: point.y - ((point.y - y) * next) / scale }
      apply()
    },
    [apply],
  )

  /** Shows everything, but nothing larger than life and nothing too small to read: then its beginning. */
  const fit = useCallback(
    (smallest = 0.55) => {
      const { width, height } = (box.current = svg.current?.getBoundingClientRect() ?? box.current)
      if (width === 0) return
      const all = Math.min((width - 2 * MARGIN) / size.width, (height - 2 * MARGIN) / size.height)
      const scale = Math.min(1, Math.max(smallest, all))
      const place = (length: number, room: number, isAlong: boolean) => (isAlong && length * scale > room - 2 * MARGIN ? MARGIN : (room - length * scale) / 2)
      view.current = { scale, x: place(size.width, width, !size.isDownward), y: place(size.height, height, size.isDownward) }
      apply()
    },
    [apply, size, svg],
  )

  /** Moves as little as needed so that a rectangle is in sight. */
  const reveal = useCallback(
    (rect: { x: number; y: number; width: number; height: number }) => {
      const { x, y, scale } = view.current
      const move = (offset: number, start: number, length: number, room: number) => {
        const [from, to] = [start * scale + offset, (start + length) * scale + offset]
        return from < MARGIN ? MARGIN - from : to > room - MARGIN ? room - MARGIN - to : 0
      }
      view.current = { scale, x: x + move(x, rect.x, rect.width, box.current.width), y: y + move(y, rect.y, rect.height, box.current.height) }
      apply()
    },
    [apply],
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
        const { left, top } = element.getBoundingClientRect()
        scaleAt(Math.exp(-event.deltaY / 300), { x: event.clientX - left, y: event.clientY - top })
        return
      }
      view.current.x -= event.shiftKey ? event.deltaY : event.deltaX
      view.current.y -= event.shiftKey ? 0 : event.deltaY
      apply()
    }
    const observer = new ResizeObserver(([entry]) => {
      if (!entry) return
      box.current = entry.contentRect
      onView(view.current, box.current)
    })
    observer.observe(element)
    element.addEventListener('pointerdown', down)
    element.addEventListener('pointermove', move)
    element.addEventListener('pointerup', up)
    element.addEventListener('pointercancel', up)
    element.addEventListener('wheel', wheel, { passive: false })
    return () => {
      observer.disconnect()
      element.removeEventListener('pointerdown', down)
      element.removeEventListener('pointermove', move)
      element.removeEventListener('pointerup', up)
      element.removeEventListener('pointercancel', up)
      element.removeEventListener('wheel', wheel)
    }
  }, [apply, onView, scaleAt, svg])

  /** Where a point of the window is in the picture. */
  const pointAt = useCallback(
    (event: { clientX: number; clientY: number }) => {
      const { left, top } = svg.current!.getBoundingClientRect()
      const { x, y, scale } = view.current
      return { x: (event.clientX - left - x) / scale, y: (event.clientY - top - y) / scale }
    },
    [svg],
  )

  return { fit, reveal, scaleAt, pointAt, wasDragged: useCallback(() => dragged.current, []) }
}
