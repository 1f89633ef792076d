import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Download, Plus, Search, Upload, Waypoints } from 'lucide-react'
import { useEffect, useMemo, useRef, useState } from 'react'
import { useScope } from '~/api/session'
import { exportGraph } from '~/api/transfer'
import { useDebounced } from '~/hooks/use-debounced'
import { useShortcut } from '~/hooks/use-shortcut'
import { useUrlDialog } from '~/hooks/use-url-state'
import { FilterBar, FilterSelect, FilterText } from '~/table/FilterBar'
import { AsOfBanner, AsOfField } from '~/ui/AsOf'
import { Button, buttonClass } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { Input, Select, Switch } from '~/ui/Field'
import { PageHeader } from '~/ui/PageHeader'
import { toast } from '~/ui/toast'
import { useActions } from '~/util/actions'
import { download } from '~/util/download'
import { CreateObjectDialog } from './CreateObjectDialog'
import type { GraphSearch } from './graph-search'
import { ImportDialog } from './ImportDialog'
import { listQuery, ObjectList } from './ObjectList'
import { SearchHits } from './SearchHits'
import { formatCount } from '~/util/format'
import { useKnownTypes, useTypeCounts } from './use-known-types'

const MODE_OPTIONS = [
  { value: 'hybrid', label: 'Words and meaning' },
  { value: 'linked', label: 'Words, meaning and links' },
  { value: 'auto', label: 'Automatic, as agents search' },
  { value: 'text', label: 'Words' },
  { value: 'vector', label: 'Meaning' },
]

const DIALOGS = ['create', 'import'] as const

export type GraphChange = (change: Partial<Record<keyof GraphSearch, string | undefined>>, options?: { push?: boolean }) => void

export function GraphListView({ search, onChange }: { search: GraphSearch; onChange: GraphChange }) {
  const [isExporting, setExporting] = useState(false)
  const write = useScope('graph:write')
  const changeReason = search.asOf ? 'Nothing can be changed in the past.' : write.reason
  const isFiltered = [search.q, search.type, search.status, search.label, search.system, search.deleted, search.asOf].some((value) => value !== undefined)
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const clear = () => onChange({ q: '', type: '', status: '', label: '', system: '', deleted: '', asOf: '' })

  const runExport = useMemo(
    () => async () => {
      setExporting(true)
      try {
        download(await exportGraph(), `graph-${new Date().toISOString().slice(0, 10)}.ndjson`)
        toast('The graph was exported.', { description: 'Live objects and relationships, without their history, sources and documents.' })
      } catch (error) {
        toast('The graph could not be exported.', { kind: 'failed', description: (error as Error).message })
      } finally {
        setExporting(false)
      }
    },
    [],
  )
  useActions(
    useMemo(
      () => [
        { id: 'graph-create', label: 'Create an object…', group: 'On this page', disabledReason: changeReason, run: () => open('create') },
        { id: 'graph-import', label: 'Import objects…', group: 'On this page', disabledReason: changeReason, run: () => open('import') },
        { id: 'graph-export', label: 'Export the graph', group: 'On this page', keepsDialog: true, run: () => void runExport() },
      ],
      [changeReason, open, runExport],
    ),
  )
  return (
    <div className="flex h-[calc(100dvh-88px)] min-h-120 flex-col">
      <PageHeader
        title="Graph"
        description="What your agents and people know, and who wrote it."
        actions={
          <>
            <Link to="/graph" search={{ view: 'explore', asOf: search.asOf }} className={buttonClass()}>
              <Waypoints aria-hidden size={14} />
              Explore
            </Link>
            <Button icon={<Upload aria-hidden size={14} />} disabledReason={changeReason} onClick={() => open('import')}>
              Import…
            </Button>
            <Button icon={<Download aria-hidden size={14} />} busy={isExporting} onClick={() => void runExport()}>
              Export
            </Button>
            <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={changeReason} onClick={() => open('create')}>
              New object
            </Button>
          </>
        }
      />
      {search.asOf && <AsOfBanner asOf={search.asOf} onLeave={() => onChange({ asOf: '' })} />}
      <div className="flex min-h-0 flex-1 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card">
        <SearchBar search={search} onChange={onChange} />
        <GraphFilters search={search} onChange={onChange} isFiltered={isFiltered} onClear={clear} />
        {search.q && search.asOf ? (
          <EmptyState icon={<Search aria-hidden size={18} />} title="A search finds what there is now." action={<Button onClick={() => onChange({ q: '' })}>List the objects of that moment</Button>}>
            Go back to now to search, or list the objects of that moment with the filters.
          </EmptyState>
        ) : search.q && search.deleted ? (
          <EmptyState icon={<Search aria-hidden size={18} />} title="A search finds no deleted objects." action={<Button onClick={() => onChange({ q: '' })}>List the deleted objects</Button>}>
            List them with the filters, or search among the objects that are there.
          </EmptyState>
        ) : search.q ? (
          <SearchHits search={{ ...search, q: search.q }} onChange={onChange} onClear={clear} />
        ) : (
          <ObjectList search={search} isFiltered={isFiltered} onClear={clear} onCreate={() => open('create')} />
        )}
      </div>
      {changeReason === undefined && dialog === 'create' && <CreateObjectDialog type={search.type} onClose={close} />}
      {changeReason === undefined && dialog === 'import' && <ImportDialog onClose={close} />}
    </div>
  )
}

function SearchBar({ search, onChange }: { search: GraphSearch; onChange: GraphChange }) {
  const [text, setText] = useState(search.q ?? '')
  const field = useRef<HTMLInputElement>(null)
  const settled = useDebounced(text.trim(), 250)
  useEffect(() => {
    if (settled !== (search.q ?? '')) onChange({ q: settled })
    // Only what was typed changes the URL; the URL changes the field below.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [settled])
  useEffect(() => setText((known) => (known.trim() === (search.q ?? '') ? known : (search.q ?? ''))), [search.q])
  useShortcut('/', () => field.current?.focus())
  return (
    <div className="flex flex-wrap gap-2 border-b border-line p-3">
      <div className="relative min-w-52 flex-1">
        <Search aria-hidden size={16} className="pointer-events-none absolute top-2.5 left-3 text-text-3" />
        <Input ref={field} type="search" aria-label="Search the graph" placeholder="Search by words and by meaning: a name, a “phrase”, prefix*, -without" value={text} onChange={(event) => setText(event.target.value)} className="h-9! pl-9!" />
      </div>
      <Select aria-label="Search by" value={search.mode ?? 'hybrid'} options={MODE_OPTIONS} onChange={(event) => onChange({ mode: event.target.value === 'hybrid' ? '' : event.target.value })} className="h-9! w-auto!" />
    </div>
  )
}

function GraphFilters({ search, onChange, isFiltered, onClear }: { search: GraphSearch; onChange: GraphChange; isFiltered: boolean; onClear: () => void }) {
  const counts = useTypeCounts()
  const known = useKnownTypes()
  // Types that only objects of another moment or deleted ones have: those of the rows that the list has read. Without
  // the chosen type, so that it does not take the others away.
  const read = useInfiniteQuery({ ...listQuery({ ...search, type: undefined }), enabled: false, placeholderData: undefined }).data
  const found = read?.pages.flatMap((page) => page.items.map((object) => object.type)) ?? []
  const types = [...new Set([...known, ...found, ...(search.type ? [search.type] : [])])].sort((a, b) => a.localeCompare(b))
  // The counts are those of the objects that are there now.
  const isCounted = counts !== undefined && !search.asOf && !search.deleted
  return (
    <FilterBar isFiltered={isFiltered} onClear={onClear} end={<AsOfField value={search.asOf} onChange={(asOf) => onChange({ asOf, deleted: '' })} />}>
      <FilterSelect label="Type" value={search.type} options={types.map((type) => ({ value: type, label: isCounted ? `${type} (${formatCount(counts.get(type) ?? 0)})` : type }))} onChange={(type) => onChange({ type })} />
      <div className="flex gap-1.5 max-sm:w-full">
        <FilterText label="Status" value={search.status} onChange={(status) => onChange({ status })} />
        <FilterText label="Label" value={search.label} onChange={(label) => onChange({ label })} />
      </div>
      {!search.type && <Switch label={<span className="text-xs text-text-2">Tasks and sessions too</span>} checked={search.system === 'true'} onChange={(system) => onChange({ system: system ? 'true' : undefined })} />}
      {!search.asOf && <Switch label={<span className="text-xs text-text-2">Deleted</span>} checked={search.deleted === 'true'} onChange={(deleted) => onChange({ deleted: deleted ? 'true' : undefined })} />}
    </FilterBar>
  )
}
