// What a picture of tasks consists of.
import { memo } from 'react'
import { statusWord } from '~/ui/Badge'
import { classes } from '~/util/classes'
import { arrowPath, edgePath, type Layout, NODE, type Placed } from './layout'
import { holdsEdge, type Region } from './region'
import { TASK_LOOKS } from './task-looks'
import type { ShownStatus } from './workflow-query'

export type GraphTask = { key: string; title: string; blockedBy: readonly string[]; agent?: string | null | undefined; attempts?: number; status: ShownStatus }

export const domId = (key: string) => `task-${key}`

/** All edges are one path, so that a thousand of them cost as much as one when the picture moves. */
export const Edges = memo(({ layout: { edges, isDownward }, region }: { layout: Layout; region: Region | undefined }) => {
  const shown = region ? edges.filter((edge) => holdsEdge(region, edge)) : edges
  return (
    <>
      <path d={shown.map(({ points }) => edgePath(points, isDownward)).join('')} className="fill-none stroke-line-strong" strokeWidth="1" />
      {!region?.isFar && <path d={shown.map(({ points }) => arrowPath(points, isDownward)).join('')} className="fill-line-strong" />}
    </>
  )
})

/** Tasks without words, one path for each status. */
export const Boxes = memo(({ layout: { nodes }, tasks }: { layout: Layout; tasks: readonly GraphTask[] }) => {
  const paths = new Map<ShownStatus, string>()
  for (const { key, status } of tasks) {
    const { x, y } = nodes.get(key)!
    paths.set(status, `${paths.get(status) ?? ''}M${x} ${y}h${NODE.width}v${NODE.height}h${-NODE.width}z`)
  }
  return [...paths].map(([status, path]) => <path key={status} data-boxes={status} d={path} className={classes('cursor-pointer', TASK_LOOKS[status].card)} strokeWidth="3" />)
})

export function OwnEdges({ layout, selected }: { layout: Layout; selected: string }) {
  const own = layout.edges.filter(({ from, to }) => from === selected || to === selected)
  return <path d={own.map((edge) => edgePath(edge.points, layout.isDownward)).join('')} className="fill-none stroke-accent" strokeWidth="2" />
}

type NodeProps = { placed: Placed; count: number; title: string; agent: string | undefined; attempts: number; status: ShownStatus; isSelected: boolean }

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1).trimEnd()}…` : text)

/** One task with its words. */
export const Node = memo(({ placed: { id, x, y, index }, count, title, agent, attempts, status, isSelected }: NodeProps) => {
  const { marks, dashed, card, icon } = TASK_LOOKS[status]
  const shortened = cut(title, 27)
  const below = `${statusWord(status)}${agent ? ` · ${agent}` : ''}${attempts > 1 ? ` · ×${attempts}` : ''}`
  return (
    <g id={domId(id)} role="option" aria-selected={isSelected} aria-posinset={index + 1} aria-setsize={count} data-task={id} data-status={status} className="cursor-pointer">
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
