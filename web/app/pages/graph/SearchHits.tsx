import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { SearchX } from 'lucide-react'
import { type Hit, type SearchMode, searchQuery } from '~/api/graph'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { Tooltip } from '~/ui/Tooltip'
import { TypeDot, TypeTag } from '~/ui/TypeTag'
import { summaryOf, titleOf } from '~/util/objects'
import type { GraphSearch } from './graph-search'
import { Marked } from './Marked'

const LIMIT = 50

type Props = { search: GraphSearch & { q: string }; onChange: (change: Partial<Record<keyof GraphSearch, string | undefined>>) => void; onClear: () => void }

export function SearchHits({ search, onChange, onClear }: Props) {
  const mode: SearchMode = search.mode ?? 'hybrid'
  const query = useQuery(
    searchQuery({
      query: search.q,
      mode,
      limit: LIMIT,
      types: search.type ? [search.type] : undefined,
      labels: search.label ? [search.label] : undefined,
      status: search.status,
      includeSystem: search.system ? true : undefined,
      explain: true,
    }),
  )
  if (query.error) return <ErrorState error={query.error} what="The search failed." onRetry={() => void query.refetch()} />
  if (!query.data) return <SkeletonRows rows={6} />
  const { hits, embedding } = query.data
  const counts = new Map<string, number>()
  for (const { object } of hits) counts.set(object.type, (counts.get(object.type) ?? 0) + 1)
  const facets = [...counts].sort((a, b) => b[1] - a[1])
  return (
    <div className="min-h-0 flex-1 overflow-auto" aria-busy={query.isPlaceholderData}>
      <div className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2 text-xs text-text-2">
        <span role="status">
          {hits.length === LIMIT ? `The best ${LIMIT}` : hits.length} {hits.length === 1 ? 'object' : 'objects'}
        </span>
        {facets.length > 1 &&
          facets.map(([type, count]) => (
            <button key={type} type="button" onClick={() => onChange({ type })} className="inline-flex h-6 items-center gap-1.5 rounded-md border border-line px-2 hover:bg-hover hover:text-text">
              <TypeDot type={type} />
              {type}
              <span className="text-text-3">{count}</span>
            </button>
          ))}
        {embedding === 'unavailable' && <span className="rounded-md bg-warn-soft px-2 py-0.5 font-medium text-warn">Search by meaning is off: {mode === 'vector' ? 'nothing can be found' : 'these are the hits by words alone'}</span>}
      </div>
      {hits.length === 0 ? (
        <EmptyState icon={<SearchX aria-hidden size={18} />} title="Nothing was found." action={<Button onClick={onClear}>Clear the search</Button>}>
          {mode === 'text' ? 'Try fewer words, a prefix such as comput*, or a search by meaning.' : 'Try other words, or remove a filter. Hits that are not similar enough are left out.'}
        </EmptyState>
      ) : (
        <ol className="divide-y divide-line">
          {hits.map((hit) => (
            <HitRow key={hit.object.id} hit={hit} query={search.q} from={hits.find(({ object }) => object.id === hit.channels.link?.from)} />
          ))}
        </ol>
      )}
    </div>
  )
}

/** `from` is the hit that led to this one over a name that both have, if it is among the hits. */
function HitRow({ hit, query, from }: { hit: Hit; query: string; from: Hit | undefined }) {
  const { object } = hit
  const { link, date } = hit.channels
  return (
    <li className="relative grid gap-x-4 gap-y-1.5 px-4 py-3 hover:bg-hover sm:grid-cols-[minmax(0,1fr)_auto]">
      <div className="min-w-0">
        <div className="flex min-w-0 items-center gap-2">
          <Link to="/graph/objects/$objectId" params={{ objectId: object.id }} className="truncate font-medium after:absolute after:inset-0">
            <Marked text={titleOf(object)} query={query} />
          </Link>
          <TypeTag type={object.type} />
          {object.key && <code className="hidden truncate font-mono text-xs text-text-3 sm:inline">{object.key}</code>}
        </div>
        <p className="mt-0.5 line-clamp-2 break-words text-text-2">
          <Marked text={summaryOf(object)} query={query} />
        </p>
        {link && (
          // Above the link that fills the row.
          <p className="relative z-1 mt-1 w-fit text-xs break-words text-text-2">
            Linked by the name “{link.name}”, which{' '}
            <Link to="/graph/objects/$objectId" params={{ objectId: link.from }} className="text-accent-text hover:underline">
              {from ? titleOf(from.object) : 'another object'}
            </Link>{' '}
            has too
          </p>
        )}
        {date && <p className="mt-1 text-xs break-words text-text-2">Its date matches: {date.property}</p>}
      </div>
      <Why hit={hit} />
    </li>
  )
}

/** Why a hit was found: its rank and measure in each channel, and the score that follows from them. */
function Why({ hit }: { hit: Hit }) {
  const { text, vector } = hit.channels
  return (
    <div className="relative z-1 flex flex-wrap items-center gap-1.5 self-start sm:flex-nowrap" role="group" aria-label="Why it was found">
      {text && (
        <Tooltip text="The rank among the hits by words, and the measure of the text search.">
          <span>
            <Badge tone="run">Words #{text.rank} · {text.score.toFixed(2)}</Badge>
          </span>
        </Tooltip>
      )}
      {vector && (
        <Tooltip text="The rank among the hits by meaning, and the cosine of the two vectors.">
          <span>
            <Badge tone="pause">Meaning #{vector.rank} · {vector.score.toFixed(3)}</Badge>
          </span>
        </Tooltip>
      )}
      <Tooltip text="Words and meaning add up to it, and a link or a date raises it. Only the order of the scores has a meaning.">
        <span className="text-xs text-text-2">
          Score <span className="font-mono">{hit.score.toFixed(4)}</span>
        </span>
      </Tooltip>
    </div>
  )
}
