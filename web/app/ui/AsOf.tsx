import { History } from 'lucide-react'
import { useId } from 'react'
import { formatAbsolute } from '~/util/format'
import { Button } from './Button'
import { Input } from './Field'

/** A time of the URL, if it is one, as the API takes it. */
export function parseTime(text: string | undefined): string | undefined {
  if (!text) return undefined
  const time = Date.parse(text)
  return Number.isNaN(time) ? undefined : text
}

/** A time as the field of the browser takes it, in the time zone of the person. */
function localTime(time: string | undefined): string {
  if (!time) return ''
  const date = new Date(time)
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

type TimeProps = { value: string | undefined; onChange: (next: string | undefined) => void }

/** A moment, in the time zone of the person. */
export function TimeField({ label, value, onChange }: TimeProps & { label: string }) {
  const id = useId()
  return (
    <label htmlFor={id} className="inline-flex items-center gap-1.5 text-xs font-normal text-text-2">
      {label}
      <Input
        id={id}
        type="datetime-local"
        step={1}
        value={localTime(value)}
        onChange={(event) => onChange(event.target.value ? new Date(event.target.value).toISOString() : undefined)}
        className="h-7! w-auto! text-xs!"
      />
    </label>
  )
}

export const AsOfField = (props: TimeProps) => <TimeField label="As of" {...props} />

/** Says that a page shows the past. */
export function AsOfBanner({ asOf, onLeave, children }: { asOf: string; onLeave: () => void; children?: string }) {
  return (
    <div role="status" className="mb-4 flex flex-wrap items-center gap-x-3 gap-y-2 rounded-lg border border-line bg-wait-soft px-4 py-2.5 text-wait">
      <History aria-hidden size={16} className="shrink-0" />
      <p className="min-w-0 flex-1">
        <strong className="font-semibold">You see the graph as of {formatAbsolute(asOf)}.</strong> {children ?? 'Nothing can be changed in the past.'}
      </p>
      <Button size="sm" onClick={onLeave}>
        Back to now
      </Button>
    </div>
  )
}
