import { Input } from '~/ui/Field'
import { localTime, PERIODS } from '~/util/periods'
import { FilterSelect } from './FilterBar'

const OPTIONS = [
  { value: '1h', label: 'Last hour' },
  { value: '24h', label: 'Last 24 hours' },
  { value: '7d', label: 'Last 7 days' },
  { value: 'between', label: 'Between…' },
]

type Times = { since?: string | undefined; until?: string | undefined }

/** A period that ends now, or the time between two moments. */
export function FilterPeriod({ since, until, onChange }: Times & { onChange: (change: Times) => void }) {
  const isBetween = until !== undefined || (since !== undefined && !(since in PERIODS))
  const setPeriod = (value: string | undefined) =>
    onChange(value === 'between' ? { since: new Date(Date.now() - PERIODS['24h']).toISOString(), until: new Date().toISOString() } : { since: value, until: undefined })
  const field = (key: 'since' | 'until', label: string, value: string | undefined) => (
    <Input type="datetime-local" aria-label={label} value={localTime(value)} onChange={(event) => onChange({ [key]: event.target.value && new Date(event.target.value).toISOString() })} className="h-7! w-auto! text-xs!" />
  )
  return (
    <>
      <FilterSelect label="Time" value={isBetween ? 'between' : since} options={OPTIONS} onChange={setPeriod} />
      {isBetween && field('since', 'Since', since)}
      {isBetween && field('until', 'Until', until)}
    </>
  )
}
