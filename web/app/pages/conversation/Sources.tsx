import { useMutation } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Box, FileText, ListChecks, type LucideIcon, Waypoints } from 'lucide-react'
import type { ReactNode } from 'react'
import { api, unwrap } from '~/api/client'
import type { Schemas } from '~/api/types'
import { toast } from '~/ui/toast'
import { type Citation, namedSources, nameOf } from './source-names'

type Passage = Schemas['Passage']

const ICONS: Record<Citation['kind'], LucideIcon> = { object: Box, chunk: FileText, run: ListChecks, relationship: Waypoints }
const CHIP = 'inline-flex max-w-64 items-center gap-1.5 rounded-full border border-line bg-surface px-2 py-0.5 text-xs hover:bg-hover'

/** A source that opens what it names: an object, the document of a passage, or a run. A relationship opens the object that it starts at. */
function Source({ source, children }: { source: Citation; children: ReactNode }) {
  const { kind, id } = source
  const objectId = kind === 'object' ? id : source.fromId
  if (objectId) return <Link to="/graph/objects/$objectId" params={{ objectId }} className={CHIP}>{children}</Link>
  if (kind === 'chunk' && source.documentId) return <Link to="/documents/$documentId" params={{ documentId: source.documentId }} search={{ chunk: id }} className={CHIP}>{children}</Link>
  if (kind === 'run') return <Link to="/runs/$runId" params={{ runId: id }} className={CHIP}>{children}</Link>
  if (kind === 'relationship') return <Relationship id={id}>{children}</Relationship>
  return <Link to="/graph" search={{ q: source.title ?? id }} className={CHIP}>{children}</Link>
}

/** A relationship of which the answer does not say where it starts. */
function Relationship({ id, children }: { id: string; children: ReactNode }) {
  const navigate = useNavigate()
  const open = useMutation({
    mutationFn: () => unwrap(api.GET('/api/graph/relationships/{id}', { params: { path: { id } } })),
    onSuccess: ({ fromId }) => void navigate({ to: '/graph/objects/$objectId', params: { objectId: fromId } }),
    onError: () => toast('The relationship is not there any more.', { kind: 'failed' }),
  })
  return <button type="button" onClick={() => open.mutate()} className={CHIP}>{children}</button>
}

export function Sources({ citations, passages = [] }: { citations: readonly Citation[]; passages?: readonly Passage[] }) {
  const known = new Set(citations.map(({ id }) => id))
  const all = [...citations, ...passages.filter(({ id }) => !known.has(id))]
  const named = namedSources(all)
  if (named.length === 0) return null
  return (
    <div className="mt-2">
      <ul aria-label="Sources" className="flex flex-wrap gap-1.5">
        {named.slice(0, 12).map(({ source, name, count }) => {
          const Icon = ICONS[source.kind]
          return (
            <li key={source.id} title={name} className="max-w-full">
              <Source source={source}>
                <Icon aria-hidden size={12} className="shrink-0 text-text-2" />
                <span className="truncate">{name}</span>
                {count > 1 && <span className="shrink-0 text-text-2">×{count}</span>}
                {source.type && <span className="shrink-0 text-text-3">{source.kind === 'relationship' ? 'relationship' : source.type}</span>}
              </Source>
            </li>
          )
        })}
      </ul>
      {named.length > 12 && <p className="mt-1 text-xs text-text-2">and {named.length - 12} more in the record of the run</p>}
      {passages.length > 0 && (
        <details className="mt-2 text-xs text-text-2">
          <summary className="cursor-pointer rounded-sm">Passages that the search found</summary>
          <ol className="mt-1 space-y-2">
            {passages.map((passage) => (
              <li key={passage.id} className="rounded-md border border-line p-2">
                <p className="font-medium text-text">{nameOf(passage, all)}</p>
                <p className="line-clamp-4 break-words whitespace-pre-wrap">{passage.text}</p>
              </li>
            ))}
          </ol>
        </details>
      )}
    </div>
  )
}
