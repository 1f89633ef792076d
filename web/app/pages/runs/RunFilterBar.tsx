import { useQuery } from '@tanstack/react-query'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { FilterBar, FilterSelect, FilterText } from '~/table/FilterBar'
import { FilterPeriod } from '~/table/FilterPeriod'
import { Switch } from '~/ui/Field'
import { capitalised, formatCount, words } from '~/util/format'
import { IN_PROGRESS, ORIGINS, REASONS, type RunSearch, STATUSES } from './run-filters'
import { ViewsMenu } from './ViewsMenu'

const options = (values: readonly string[]) => values.map((value) => ({ value, label: capitalised(words(value)) }))

/** The single statuses, those in progress together, and whatever else the URL asks for. */
function statusOptions(current: string | undefined) {
  const known = [{ value: IN_PROGRESS, label: 'In progress' }, ...options(STATUSES)]
  if (!current || known.some(({ value }) => value === current)) return known
  return [...known, { value: current, label: current.split(',').map(capitalised).join(', ') }]
}

type Props = {
  search: RunSearch
  onChange: (change: Partial<Record<keyof RunSearch, string | undefined>>) => void
  isFiltered: boolean
  onClear: () => void
  count: number
  hasMore: boolean
}

export function RunFilterBar({ search, onChange, isFiltered, onClear, count, hasMore }: Props) {
  const readsAgents = useScope('agents:read').allowed
  const agents = useQuery({ ...agentsQuery, enabled: readsAgents }).data?.items ?? []
  return (
    <FilterBar isFiltered={isFiltered} onClear={onClear} end={
        <>
          <span className="text-xs text-text-2">{formatCount(count)}{hasMore && '+'} shown</span>
          <ViewsMenu search={search} onChange={onChange} />
        </>
      }>
      <FilterText label="Search the runs" placeholder="Input or result" value={search.q} onChange={(q) => onChange({ q })} />
      <FilterSelect label="Status" value={search.status} options={statusOptions(search.status)} onChange={(status) => onChange({ status })} />
      <FilterSelect label="Agent" value={search.agent} options={agents.map(({ name }) => ({ value: name, label: name }))} onChange={(agent) => onChange({ agent })} />
      <FilterSelect label="Reason" value={search.reason} options={options(REASONS)} onChange={(reason) => onChange({ reason })} />
      <FilterSelect label="Origin" value={search.origin} options={options(ORIGINS)} onChange={(origin) => onChange({ origin })} />
      <FilterPeriod since={search.since} until={search.until} onChange={onChange} />
      <Switch label={<span className="text-xs text-text-2">Top level only</span>} checked={search.root === 'true'} onChange={(root) => onChange({ root: root ? 'true' : undefined })} />
    </FilterBar>
  )
}
