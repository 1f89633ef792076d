import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowLeft, ArrowRight, Pencil, Plus } from 'lucide-react'
import { useState } from 'react'
import { MAX_NEIGHBOURS, neighboursQuery, type Relationship, type TraversalNode } from '~/api/graph'
import { useScope } from '~/api/session'
import { type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
import { Button, IconButton } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { TypeTag } from '~/ui/TypeTag'
import { formatCount, shortId, words } from '~/util/format'
import { titleOf } from '~/util/objects'
import { jsonText } from '~/util/json'
import { AddRelationshipDialog } from './AddRelationshipDialog'
import { RelationshipDialog } from './RelationshipDialog'

const parse = (raw: RawSearch) => ({ relationship: raw.relationship || undefined })
const DIALOGS = ['add'] as const
const FEW = 8
type Direction = 'out' | 'in'
type Group = { type: string; direction: Direction; edges: Relationship[] }
type Props = { id: string; title: string; asOf: string | undefined; disabledReason: string | undefined }

function groupsOf(id: string, edges: Relationship[]): Group[] {
  const groups = new Map<string, Group>()
  for (const edge of edges) {
    if (edge.fromId !== id && edge.toId !== id) continue
    const direction: Direction = edge.fromId === id ? 'out' : 'in'
    const name = `${direction} ${edge.type}`
    const group = groups.get(name) ?? { type: edge.type, direction, edges: [] }
    group.edges.push(edge)
    groups.set(name, group)
  }
  return [...groups.values()].sort((a, b) => b.direction.localeCompare(a.direction) || a.type.localeCompare(b.type))
}

/** The relationships of an object, grouped by direction and type. */
export function RelationshipsCard({ id, title, asOf, disabledReason }: Props) {
  const query = useQuery(neighboursQuery(id, asOf))
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const [{ relationship }, change] = useUrlState(parse)
  const write = useScope('graph:write')
  const nodes = new Map(query.data?.nodes.map((node) => [node.id, node]))
  const groups = groupsOf(id, query.data?.edges ?? [])
  return (
    <Card
      title="Relationships"
      flush
      action={
        <Button size="sm" icon={<Plus aria-hidden size={14} />} disabledReason={disabledReason} onClick={() => open('add')}>
          Add
        </Button>
      }
    >
      {query.error ? (
        <ErrorState error={query.error} what="The relationships could not be loaded." onRetry={() => void query.refetch()} />
      ) : !query.data ? (
        <SkeletonRows rows={3} />
      ) : groups.length === 0 ? (
        <EmptyState title="It has no relationships.">{disabledReason ? undefined : 'Add one to connect it with what else is known.'}</EmptyState>
      ) : (
        <div className="divide-y divide-line">
          {groups.map((group) => (
            <RelationshipGroup key={`${group.direction} ${group.type}`} group={group} nodes={nodes} asOf={asOf} onOpen={(edge) => change({ relationship: edge.id }, { push: true })} />
          ))}
        </div>
      )}
      {query.data?.truncated && <p className="border-t border-line px-4 py-2 text-xs text-text-2">It has more than {formatCount(MAX_NEIGHBOURS - 1)} neighbours; these are some of them.</p>}
      {dialog === 'add' && <AddRelationshipDialog id={id} title={title} disabledReason={disabledReason} onClose={close} />}
      {relationship && <RelationshipDialog key={relationship} id={relationship} object={{ id, title }} disabledReason={disabledReason} restoreReason={write.reason} onClose={() => change({ relationship: '' })} />}
    </Card>
  )
}

type GroupProps = { group: Group; nodes: Map<string, TraversalNode>; asOf: string | undefined; onOpen: (edge: Relationship) => void }

function RelationshipGroup({ group, nodes, asOf, onOpen }: GroupProps) {
  const [all, setAll] = useState(false)
  const isOut = group.direction === 'out'
  const Arrow = isOut ? ArrowRight : ArrowLeft
  const shown = all ? group.edges : group.edges.slice(0, FEW)
  return (
    <section aria-label={`${words(group.type)}, ${isOut ? 'from it' : 'to it'}`} className="px-4 py-3">
      <h3 className="mb-1 flex items-center gap-1.5 text-xs font-medium text-text-2">
        <Arrow aria-hidden size={14} />
        {words(group.type)}
        <span className="font-normal text-text-3">{isOut ? 'from this object' : 'to this object'}</span>
        <span className="ml-auto font-normal text-text-3">{formatCount(group.edges.length)}</span>
      </h3>
      <ul>
        {shown.map((edge) => {
          const otherId = isOut ? edge.toId : edge.fromId
          const other = nodes.get(otherId)
          const name = other ? titleOf(other) : shortId(otherId)
          return (
            <li key={edge.id} className="-mx-2 flex min-h-8 items-center gap-2 rounded-md px-2 hover:bg-hover">
              <Link to="/graph/objects/$objectId" params={{ objectId: otherId }} search={{ asOf }} className="truncate font-medium hover:underline">
                {name}
              </Link>
              {other && <TypeTag type={other.type} />}
              <span className="min-w-0 flex-1 truncate text-xs text-text-2">{noteOf(edge)}</span>
              <IconButton size="sm" label={`Open the relationship with ${name}`} onClick={() => onOpen(edge)}>
                <Pencil aria-hidden size={14} />
              </IconButton>
            </li>
          )
        })}
      </ul>
      {shown.length < group.edges.length && (
        <Button variant="ghost" size="sm" onClick={() => setAll(true)}>
          Show all {formatCount(group.edges.length)}
        </Button>
      )}
    </section>
  )
}

function noteOf(edge: Relationship): string {
  const parts = Object.entries(edge.properties).map(([name, value]) => `${name}: ${typeof value === 'object' ? jsonText(value) : String(value)}`)
  if (edge.weight !== null && edge.weight !== undefined) parts.push(`weight ${edge.weight}`)
  return parts.join(' · ')
}
