import { History } from 'lucide-react'
import { useId } from 'react'
import { formatAbsolute } from '~/util/format'
import { localTime } from '~/util/periods'
import { Button } from './Button'
import { Input } from './Field'

export function AsOfField({ value, onChange }: { value: string | undefined; onChange: (next: string | undefined) => void }) {
  const id = useId()
  return (
    <label htmlFor={id} className="inline-flex items-center gap-1.5 text-xs font-normal text-text-2">
      As of
      <Input
        id={id}
        type="datetime-local"
        step={1}
        value={localTime(value, 19)}
        onChange={(event) => onChange(event.target.value ? new Date(event.target.value).toISOString() : undefined)}
        className="h-7! w-auto! text-xs!"
      />
    </label>
  )
}

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
