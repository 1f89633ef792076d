import { Maximize, ZoomIn, ZoomOut } from 'lucide-react'
import { memo, useEffect, useLayoutEffect, useMemo, useRef } from 'react'
import { IconButton } from '~/ui/Button'
import { classes } from '~/util/classes'
import { arrowPath, edgePath, type Layout, layoutTasks, NODE, type Placed } from './layout'
import { TASK_LOOKS } from './task-looks'
import { usePanZoom } from './use-pan-zoom'
import type { ShownStatus } from './workflow-query'

export type GraphTask = { key: string; title: string; blockedBy: readonly string[]; agent?: string | null | undefined; attempts?: number; status: ShownStatus }

type Props = {
  tasks: readonly GraphTask[]
  selected: string | undefined
  onSelect: (key: string | undefined) => void
  label: string
  className?: string
}

/** The tasks as a picture. Arrow keys go along the edges and through a layer; dragging moves, Ctrl and the wheel scale. */
export function TaskGraph({ tasks, selected, onSelect, label, className }: Props) {
  const svg = useRef<SVGSVGElement>(null)
  const group = useRef<SVGGElement>(null)
  // Only a new task or a new edge moves anything; a new status does not.
  const shape = JSON.stringify(tasks.map(({ key, blockedBy }) => [key, blockedBy]))
  const layout = useMemo(() => layoutTasks((JSON.parse(shape) as [string, string[]][]).map(([id, blockedBy]) => ({ id, blockedBy }))), [shape])
  const { fit, reveal, scaleAt, wasDragged } = usePanZoom(svg, group, layout)
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
    onSelect((event.target as Element).closest('[data-task]')?.getAttribute('data-task') ?? undefined)
  }
  const isKnown = selected !== undefined && layout.nodes.has(selected)
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
        className="absolute inset-0 size-full cursor-grab touch-none select-none -outline-offset-2 active:cursor-grabbing"
      >
        <g ref={group} role="presentation">
          <Edges layout={layout} />
          {isKnown && <OwnEdges layout={layout} selected={selected} />}
          {tasks.map((task) => {
            const placed = layout.nodes.get(task.key)
            return placed && <Node key={task.key} placed={placed} title={task.title} agent={task.agent ?? undefined} attempts={task.attempts ?? 0} status={task.status} isSelected={task.key === selected} />
          })}
        </g>
      </svg>
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
    </div>
  )
}

const domId = (key: string) => `task-${key}`

/** All edges are one path, so that a thousand of them cost as much as one when the picture moves. */
const Edges = memo(({ layout: { edges, isDownward } }: { layout: Layout }) => (
  <>
    <path d={edges.map(({ points }) => edgePath(points, isDownward)).join('')} className="fill-none stroke-line-strong" strokeWidth="1" />
    <path d={edges.map(({ points }) => arrowPath(points, isDownward)).join('')} className="fill-line-strong" />
  </>
))

function OwnEdges({ layout, selected }: { layout: Layout; selected: string }) {
  const own = layout.edges.filter(({ from, to }) => from === selected || to === selected)
  return <path d={own.map((edge) => edgePath(edge.points, layout.isDownward)).join('')} className="fill-none stroke-accent" strokeWidth="2" />
}

type NodeProps = { placed: Placed; title: string; agent: string | undefined; attempts: number; status: ShownStatus; isSelected: boolean }

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1).trimEnd()}…` : text)

const Node = memo(({ placed: { id, x, y }, title, agent, attempts, status, isSelected }: NodeProps) => {
  const { word, marks, dashed, card, icon } = TASK_LOOKS[status]
  const shortened = cut(title, 27)
  const below = `${word}${agent ? ` · ${agent}` : ''}${attempts > 1 ? ` · ×${attempts}` : ''}`
  return (
    <g id={domId(id)} role="option" aria-selected={isSelected} data-task={id} data-status={status} className="cursor-pointer">
      <rect x={x} y={y} width={NODE.width} height={NODE.height} rx="8" className={isSelected ? 'fill-selected stroke-accent' : card} strokeWidth={isSelected ? 2 : 1.25}>
        {shortened !== title && <title>{title}</title>}
      </rect>
      <path d={`M${x + 20} ${y + 28}${marks}`} className={classes('pointer-events-none fill-none', icon)} strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" strokeDasharray={dashed ? '2 3.5' : undefined} />
      <text x={x + 38} y={y + 24} className="pointer-events-none fill-text text-xs font-semibold">
        {shortened}
      </text>
      <text x={x + 38} y={y + 42} className="pointer-events-none fill-text-2 text-2xs">
        {cut(below, 34)}
      </text>
    </g>
  )
})

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
