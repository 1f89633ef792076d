import { Maximize, ZoomIn, ZoomOut } from 'lucide-react'
import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { IconButton } from '~/ui/Button'
import { classes } from '~/util/classes'
import { type Layout, layoutOf, NODE } from './layout'
import { covers, FEW, holdsNode, isSameRegion, type Region, regionOf, taskAt, withRoom } from './region'
import { Boxes, domId, Edges, type GraphTask, Node, OwnEdges } from './TaskGraphParts'
import { usePanZoom, type View } from './use-pan-zoom'

type Props = {
  tasks: readonly GraphTask[]
  selected: string | undefined
  onSelect: (key: string | undefined) => void
  label: string
  className?: string
}

/** The tasks as a picture. Arrow keys go along the edges and through a layer; dragging moves, Ctrl and the wheel scale. */
export const TaskGraph = memo(({ tasks, selected, onSelect, label, className }: Props) => {
  const svg = useRef<SVGSVGElement>(null)
  const group = useRef<SVGGElement>(null)
  const layout = useMemo(() => layoutOf(tasks), [tasks])
  const isLarge = tasks.length > FEW
  const [region, setRegion] = useState<Region>()
  const [around, setAround] = useState<Region>()
  const known = useRef<Region>(undefined)
  const onView = useCallback(
    (view: View, box: { width: number; height: number }) => {
      const next = isLarge ? regionOf(view, box) : undefined
      if (next && isSameRegion(known.current, next)) return
      known.current = next
      setRegion(next)
      setAround((kept) => (next && !covers(kept, next) ? withRoom(next) : kept))
    },
    [isLarge],
  )
  const { fit, reveal, scaleAt, pointAt, wasDragged } = usePanZoom(svg, group, layout, onView)
  useLayoutEffect(() => fit(), [fit])
  useEffect(() => {
    const placed = selected ? layout.nodes.get(selected) : undefined
    if (placed) reveal({ ...placed, ...NODE })
  }, [layout, reveal, selected])

  const onKeyDown = (event: React.KeyboardEvent) => {
    const next = neighbour(layout, selected, event.key)
    if (event.key === '+' || event.key === '-') scaleAt(event.key === '+' ? 1.25 : 0.8)
    else if (event.key === '0') fit(0)
    else if (event.key === 'Escape') onSelect(undefined)
    else if (next) onSelect(next)
    else return
    event.preventDefault()
  }
  const onClick = (event: React.MouseEvent) => {
    if (wasDragged()) return
    onSelect((event.target as Element).closest('[data-task]')?.getAttribute('data-task') ?? (region?.isFar ? taskAt(layout.nodes.values(), pointAt(event))?.id : undefined))
  }
  const isKnown = selected !== undefined && layout.nodes.has(selected)
  // The selected task, or else the first one, is always there for those who hear the picture.
  const anchor = isKnown ? selected : layout.layers[0]?.[0]
  const shown = useMemo(() => {
    if (!isLarge) return tasks
    return tasks.filter(({ key }) => key === anchor || (region && !region.isFar && holdsNode(region, layout.nodes.get(key)!)))
  }, [anchor, isLarge, layout, region, tasks])
  return (
    <div className={classes('relative min-h-0 overflow-hidden', className)}>
      <svg
        ref={svg}
        role="listbox"
        aria-label={label}
        aria-activedescendant={isKnown ? domId(selected) : undefined}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onClick={onClick}
        // A layer of its own: a frame of a move paints the picture alone, and not the decisions below it again.
        className="absolute inset-0 size-full will-change-transform cursor-grab touch-none select-none -outline-offset-2 active:cursor-grabbing"
      >
        <g ref={group} role="presentation">
          {(region || !isLarge) && <Edges layout={layout} region={region && around} />}
          {isKnown && <OwnEdges layout={layout} selected={selected} />}
          {region?.isFar && <Boxes layout={layout} tasks={tasks} />}
          {shown.map((task) => {
            const placed = layout.nodes.get(task.key)
            return placed && <Node key={task.key} placed={placed} count={tasks.length} title={task.title} agent={task.agent ?? undefined} attempts={task.attempts ?? 0} status={task.status} isSelected={task.key === selected} />
          })}
        </g>
      </svg>
      <Zoom scaleAt={scaleAt} fit={fit} />
    </div>
  )
})

/** The picture is drawn again many times while it is moved, and its buttons with their tooltips are not. */
const Zoom = memo(({ scaleAt, fit }: { scaleAt: (factor: number) => void; fit: (smallest: number) => void }) => (
  <div role="group" aria-label="Zoom" className="absolute right-2 bottom-2 flex rounded-md border border-line bg-raised shadow-card">
    <IconButton size="sm" label="Zoom out" onClick={() => scaleAt(0.8)}>
      <ZoomOut aria-hidden size={14} />
    </IconButton>
    <IconButton size="sm" label="Zoom in" onClick={() => scaleAt(1.25)}>
      <ZoomIn aria-hidden size={14} />
    </IconButton>
    <IconButton size="sm" label="Show everything" onClick={() => fit(0)}>
      <Maximize aria-hidden size={14} />
    </IconButton>
  </div>
))

/** The task that an arrow key leads to: along the edges in their direction, and through the layer across it. */
function neighbour({ nodes, edges, layers, isDownward }: Layout, selected: string | undefined, key: string): string | undefined {
  if (!['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'Enter'].includes(key)) return undefined
  const placed = selected ? nodes.get(selected) : undefined
  if (!placed || key === 'Home') return layers[0]?.[0]
  if (key === 'End') return layers.at(-1)?.[0]
  const layer = layers[placed.layer] ?? []
  const row = layer.indexOf(placed.id)
  const [back, on, previous, next] = isDownward ? ['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight'] : ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown']
  if (key === previous) return layer[row - 1]
  if (key === next) return layer[row + 1]
  if (key === back) return edges.find(({ to }) => to === placed.id)?.from ?? layers[placed.layer - 1]?.[0]
  if (key === on) return edges.find(({ from }) => from === placed.id)?.to ?? layers[placed.layer + 1]?.[0]
  return undefined
}
