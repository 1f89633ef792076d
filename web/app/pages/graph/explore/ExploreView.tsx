import { Link, useNavigate } from '@tanstack/react-router'
import { Crosshair, List, Maximize, Minus, Plus, RefreshCw, Waypoints } from 'lucide-react'
import { useCallback, useMemo, useState } from 'react'
import { isMissing } from '~/api/errors'
import { AsOfBanner, AsOfField } from '~/ui/AsOf'
import { Badge } from '~/ui/Badge'
import { Button, buttonClass, IconButton } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { Select } from '~/ui/Field'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { TypeDot } from '~/ui/TypeTag'
import { formatCount } from '~/util/format'
import { titleOf } from '~/util/objects'
import { ObjectPicker } from '../../object/ObjectPicker'
import type { GraphSearch } from '../graph-search'
import type { GraphChange } from '../GraphListView'
import { GraphCanvas } from './GraphCanvas'
import { NodeList } from './NodeList'
import { MAX_NODES, useNeighbourhood } from './use-neighbourhood'
import type { Picture } from './picture'

const DEPTH_OPTIONS = ['1', '2', '3', '4'].map((value) => ({ value, label: value === '1' ? '1 step' : `${value} steps` }))
const MAX_EXPANDED = 20

/** The graph around an object, as a picture and as a list. */
export default function ExploreView({ search, onChange }: { search: GraphSearch; onChange: GraphChange }) {
  const { from, asOf } = search
  const header = (
    <PageHeader
      title="Explore"
      description="What is connected with an object, and what is connected with that."
      above={
        <Link to="/graph" search={{ asOf }} className="hover:underline">
          Graph
        </Link>
      }
      actions={
        <>
          <AsOfField value={asOf} onChange={(next) => onChange({ asOf: next })} />
          <Link to="/graph" search={{ asOf }} className={buttonClass()}>
            <List aria-hidden size={14} />
            List
          </Link>
        </>
      }
    />
  )
  const banner = asOf && <AsOfBanner asOf={asOf} onLeave={() => onChange({ asOf: '' })} />
  if (!from) {
    return (
      <>
        {header}
        {banner}
        <div className="mx-auto w-full max-w-lg rounded-lg border border-line bg-surface p-4 shadow-card">
          <EmptyState icon={<Waypoints aria-hidden size={18} />} title="Where do you want to start?">
            Choose an object. A click on a neighbour expands it, a double click opens it.
          </EmptyState>
          <ObjectPicker label="Start at" value={undefined} onChange={(object) => object && onChange({ from: object.id }, { push: true })} />
        </div>
      </>
    )
  }
  return (
    // With a height of its own, so that the list beside the picture scrolls and has only the rows that are seen.
    <div className="flex min-h-[calc(100dvh-88px)] flex-col lg:h-[calc(100dvh-88px)] lg:min-h-[520px]">
      {header}
      {banner}
      <Explorer search={search} from={from} onChange={onChange} />
    </div>
  )
}

function Explorer({ search, from, onChange }: { search: GraphSearch; from: string; onChange: GraphChange }) {
  const navigate = useNavigate()
  const expanded = useMemo(() => search.expanded?.split(',').filter(Boolean) ?? [], [search.expanded])
  const depth = Number(search.depth ?? '1')
  const { nodes, edges, isTruncated, isLoading, error, refetch } = useNeighbourhood(from, depth, expanded, search.asOf)
  const [picture, setPicture] = useState<Picture>()
  const [selected, setSelected] = useState<string>()

  const open = useCallback((id: string) => void navigate({ to: '/graph/objects/$objectId', params: { objectId: id }, search: { asOf: search.asOf } }), [navigate, search.asOf])
  const expand = useCallback(
    (id: string) => {
      setSelected(id)
      if (id !== from && !expanded.includes(id)) onChange({ expanded: [...expanded, id].slice(-MAX_EXPANDED).join(',') })
    },
    [expanded, from, onChange],
  )
  const select = useCallback(
    (id: string | undefined) => {
      setSelected(id)
      if (id) picture?.focus(id)
    },
    [picture],
  )
  const counts = useMemo(() => {
    const found = new Map<string, number>()
    for (const node of nodes) found.set(node.type, (found.get(node.type) ?? 0) + 1)
    return [...found].sort((a, b) => b[1] - a[1])
  }, [nodes])

  // Only the start itself can be missing here: expanded objects that are gone are left out of the picture.
  if (isMissing(error)) {
    return (
      <EmptyState
        icon={<Waypoints aria-hidden size={18} />}
        title={search.asOf ? 'The object was not there at that moment.' : 'The object is not there.'}
        action={
          <div className="flex flex-wrap justify-center gap-2">
            {search.asOf && <Button onClick={() => onChange({ asOf: '' })}>Back to now</Button>}
            <Button onClick={() => onChange({ from: '', expanded: '' }, { push: true })}>Choose another start</Button>
          </div>
        }
      >
        {search.asOf ? 'It was created later, or was deleted then.' : 'It was deleted, or belongs to another project.'}
      </EmptyState>
    )
  }
  if (error) return <ErrorState error={error} what="The graph around this object could not be loaded." onRetry={refetch} />
  if (isLoading) return <SkeletonRows rows={8} />
  const root = nodes.find((node) => node.id === from || `${node.type}/${node.key}` === from) ?? nodes[0]
  return (
    <div className="grid min-h-0 flex-1 gap-4 lg:grid-cols-[minmax(0,1fr)_20rem] lg:grid-rows-[minmax(0,1fr)]">
      <section aria-label="Picture" className="relative flex min-h-96 min-w-0 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card">
        <div className="flex flex-wrap items-center gap-x-3 gap-y-2 border-b border-line px-3 py-2">
          <p role="status" className="min-w-0 flex-1 truncate text-text-2 max-sm:flex-none max-sm:basis-full">
            <span className="font-medium text-text">{root && titleOf(root)}</span> · {formatCount(nodes.length)} {nodes.length === 1 ? 'object' : 'objects'}, {formatCount(edges.length)} {edges.length === 1 ? 'relationship' : 'relationships'}
          </p>
          <Select aria-label="How far" value={String(depth)} options={DEPTH_OPTIONS} onChange={(event) => onChange({ depth: event.target.value === '1' ? '' : event.target.value })} className="h-7! w-auto! text-xs!" />
          {expanded.length > 0 && (
            <Button size="sm" variant="ghost" onClick={() => onChange({ expanded: '' })}>
              Collapse {expanded.length}
            </Button>
          )}
          <div className="flex">
            <IconButton size="sm" label="Zoom in" onClick={() => picture?.zoom('in')}>
              <Plus aria-hidden size={14} />
            </IconButton>
            <IconButton size="sm" label="Zoom out" onClick={() => picture?.zoom('out')}>
              <Minus aria-hidden size={14} />
            </IconButton>
            <IconButton size="sm" label="Show all" onClick={() => picture?.zoom('all')}>
              <Maximize aria-hidden size={14} />
            </IconButton>
            <IconButton size="sm" label="Read again" onClick={refetch}>
              <RefreshCw aria-hidden size={14} />
            </IconButton>
          </div>
        </div>
        {isTruncated && (
          <p className="border-b border-line bg-warn-soft px-3 py-1.5 text-xs text-warn">
            There is more than the picture can show: the limit is {formatCount(MAX_NODES)} objects. Go fewer steps, or start at another object.
          </p>
        )}
        <GraphCanvas root={root?.id ?? from} nodes={nodes} edges={edges} selected={selected} onPicture={setPicture} onExpand={expand} onOpen={open} onBackground={() => setSelected(undefined)} />
        <ul aria-label="Types" className="flex flex-wrap gap-x-3 gap-y-1 border-t border-line px-3 py-2 text-xs text-text-2">
          {counts.slice(0, 12).map(([type, count]) => (
            <li key={type} className="inline-flex items-center gap-1.5">
              <TypeDot type={type} />
              {type} <span className="text-text-3">{formatCount(count)}</span>
            </li>
          ))}
          {counts.length > 12 && <li>and {counts.length - 12} more</li>}
        </ul>
      </section>
      <NodeList nodes={nodes} edges={edges} root={root?.id ?? from} expanded={expanded} selected={selected} onSelect={select} onExpand={expand} onFound={(found) => picture?.setFound(found)} onStart={(id) => onChange({ from: id, expanded: '' }, { push: true })} asOf={search.asOf} badge={<Badge icon={<Crosshair aria-hidden size={12} />}>Start</Badge>} />
    </div>
  )
}
