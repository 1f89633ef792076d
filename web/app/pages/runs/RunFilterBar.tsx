import { useQuery } from '@tanstack/react-query'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { FilterBar, FilterSelect, FilterText } from '~/table/FilterBar'
import { Input, Switch } from '~/ui/Field'
import { capitalised, formatCount, words } from '~/util/format'
import { ORIGINS, PERIODS, REASONS, type RunSearch, STATUSES } from './run-filters'
import { ViewsMenu } from './ViewsMenu'

const options = (values: readonly string[]) => values.map((value) => ({ value, label: capitalised(words(value)) }))
const PERIOD_OPTIONS = [
  { value: '1h', label: 'Last hour' },
  { value: '24h', label: 'Last 24 hours' },
  { value: '7d', label: 'Last 7 days' },
  { value: 'between', label: 'Between…' },
]

type Props = {
  search: RunSearch
  onChange: (change: Partial<Record<keyof RunSearch, string | undefined>>) => void
  isFiltered: boolean
  onClear: () => void
  count: number
  hasMore: boolean
}

/** A time of the URL as the field of the browser takes it, in the time zone of the person. */
function localTime(time: string | undefined): string {
  if (!time) return ''
  const date = new Date(time)
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

export function RunFilterBar({ search, onChange, isFiltered, onClear, count, hasMore }: Props) {
  const readsAgents = useScope('agents:read').allowed
  const agents = useQuery({ ...agentsQuery, enabled: readsAgents }).data?.items ?? []
  const isBetween = search.until !== undefined || (search.since !== undefined && !(search.since in PERIODS))
  const setPeriod = (value: string | undefined) =>
    value === 'between' ? onChange({ since: new Date(Date.now() - PERIODS['24h']).toISOString(), until: new Date().toISOString() }) : onChange({ since: value, until: undefined })
  const setTime = (key: 'since' | 'until') => (text: string) => onChange({ [key]: text && new Date(text).toISOString() })
  return (
    <FilterBar isFiltered={isFiltered} onClear={onClear} end={
        <>
          <span className="text-xs text-text-2">{formatCount(count)}{hasMore && '+'} shown</span>
          <ViewsMenu search={search} onChange={onChange} />
        </>
      }>
      <FilterText label="Search the runs" placeholder="Search input or result" value={search.q} onChange={(q) => onChange({ q })} />
      <FilterSelect label="Status" value={search.status} options={options(STATUSES)} onChange={(status) => onChange({ status })} />
      <FilterSelect label="Agent" value={search.agent} options={agents.map(({ name }) => ({ value: name, label: name }))} onChange={(agent) => onChange({ agent })} />
      <FilterSelect label="Reason" value={search.reason} options={options(REASONS)} onChange={(reason) => onChange({ reason })} />
      <FilterSelect label="Origin" value={search.origin} options={options(ORIGINS)} onChange={(origin) => onChange({ origin })} />
      <FilterSelect label="Time" value={isBetween ? 'between' : search.since} options={PERIOD_OPTIONS} onChange={setPeriod} />
      {isBetween && (
        <>
          <Input type="datetime-local" aria-label="Since" value={localTime(search.since)} onChange={(event) => setTime('since')(event.target.value)} className="h-7! w-auto! text-xs!" />
          <Input type="datetime-local" aria-label="Until" value={localTime(search.until)} onChange={(event) => setTime('until')(event.target.value)} className="h-7! w-auto! text-xs!" />
        </>
      )}
      <Switch label={<span className="text-xs text-text-2">Top level only</span>} checked={search.root === 'true'} onChange={(root) => onChange({ root: root ? 'true' : undefined })} />
    </FilterBar>
  )
}
