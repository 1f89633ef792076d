import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { Expand } from 'lucide-react'
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import type { Relationship, TraversalNode } from '~/api/graph'
import { useDebounced } from '~/hooks/use-debounced'
import { Button, buttonClass, IconButton } from '~/ui/Button'
import { Input } from '~/ui/Field'
import { TypeDot, TypeTag } from '~/ui/TypeTag'
import { classes } from '~/util/classes'
import { formatCount } from '~/util/format'
import { summaryOf, titleOf } from '~/util/objects'

type Props = {
  nodes: TraversalNode[]
  edges: Relationship[]
  root: string
  expanded: readonly string[]
  selected: string | undefined
  onSelect: (id: string | undefined) => void
  onExpand: (id: string) => void
  onStart: (id: string) => void
  onFound: (found: ReadonlySet<string> | undefined) => void
  asOf: string | undefined
  badge: ReactNode
}

const ROW = 36

/** The nodes of the picture as a list: to find one, to expand it and to open it with the keyboard. */
export function NodeList({ nodes, edges, root, expanded, selected, onSelect, onExpand, onStart, onFound, asOf, badge }: Props) {
  const [text, setText] = useState('')
  const query = useDebounced(text.trim().toLowerCase(), 150)
  const scroller = useRef<HTMLDivElement>(null)
  const degrees = useMemo(() => {
    const found = new Map<string, number>()
    for (const edge of edges) for (const end of [edge.fromId, edge.toId]) found.set(end, (found.get(end) ?? 0) + 1)
    return found
  }, [edges])
  const shown = useMemo(() => (query === '' ? nodes : nodes.filter((node) => `${titleOf(node)} ${node.type} ${node.key ?? ''}`.toLowerCase().includes(query))), [nodes, query])
  const tell = useRef(onFound)
  useEffect(() => {
    tell.current = onFound
  })
  useEffect(() => tell.current(query === '' ? undefined : new Set(shown.map((node) => node.id))), [query, shown])
  const virtualizer = useVirtualizer({ count: shown.length, getScrollElement: () => scroller.current, estimateSize: () => ROW, overscan: 6 })
  const chosen = nodes.find((node) => node.id === selected)
  return (
    <section aria-label="Objects in the picture" className="flex min-h-72 min-w-0 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card max-lg:h-96">
      <div className="border-b border-line p-2">
        <Input type="search" aria-label="Find in the picture" placeholder={`Find among ${formatCount(nodes.length)}`} value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      <div ref={scroller} className="min-h-0 flex-1 overflow-auto">
        {shown.length === 0 && <p className="p-4 text-text-2">No object in the picture has this name.</p>}
        <ul className="relative" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => {
            const node = shown[item.index]!
            const isExpanded = node.id === root || expanded.includes(node.id)
            return (
              <li key={node.id} style={{ height: item.size, transform: `translateY(${item.start}px)` }} className={classes('absolute inset-x-0 top-0 flex items-center gap-1 pr-1 pl-3', node.id === selected ? 'bg-selected' : 'hover:bg-hover')}>
                <button type="button" aria-pressed={node.id === selected} onClick={() => onSelect(node.id)} className="flex h-full min-w-0 flex-1 items-center gap-2 text-left -outline-offset-2">
                  <TypeDot type={node.type} />
                  <span className="truncate">{titleOf(node)}</span>
                  {node.id === root && badge}
                  <span className="ml-auto pl-2 text-xs text-text-3" title="Relationships in the picture">
                    {formatCount(degrees.get(node.id) ?? 0)}
                  </span>
                </button>
                <IconButton size="sm" label={`Expand ${titleOf(node)}`} disabledReason={isExpanded ? 'It is expanded already.' : undefined} onClick={() => onExpand(node.id)}>
                  <Expand aria-hidden size={14} />
                </IconButton>
              </li>
            )
          })}
        </ul>
      </div>
      {chosen && (
        <div className="space-y-2 border-t border-line p-3">
          <p className="flex items-center gap-2 font-medium">
            <span className="truncate">{titleOf(chosen)}</span>
            <TypeTag type={chosen.type} />
          </p>
          {summaryOf(chosen) !== titleOf(chosen) && <p className="line-clamp-3 break-words text-text-2">{summaryOf(chosen)}</p>}
          <div className="flex gap-2">
            <Link to="/graph/objects/$objectId" params={{ objectId: chosen.id }} search={{ asOf }} className={buttonClass('primary', 'sm')}>
              Open
            </Link>
            <Button size="sm" disabledReason={chosen.id === root ? 'The picture starts here.' : undefined} onClick={() => onStart(chosen.id)}>
              Start here
            </Button>
          </div>
        </div>
      )}
    </section>
  )
}
