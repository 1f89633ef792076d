import { X } from 'lucide-react'
import { type ReactNode, useEffect, useId, useState } from 'react'
import { useDebounced } from '~/hooks/use-debounced'
import { Button } from '~/ui/Button'
import { Input, type Option, Select } from '~/ui/Field'

/** The filters of a list. They are held in the URL, so a link shows the same list. */
export function FilterBar({ children, isFiltered, onClear, end }: { children: ReactNode; isFiltered: boolean; onClear: () => void; end?: ReactNode }) {
  return (
    <div role="search" aria-label="Filter the list" className="flex flex-wrap items-center gap-1.5 border-b border-line px-4 py-2.5">
      {children}
      {isFiltered && (
        <Button variant="ghost" size="sm" icon={<X aria-hidden size={14} />} onClick={onClear}>
          Clear
        </Button>
      )}
      {end && <div className="ml-auto flex items-center gap-2">{end}</div>}
    </div>
  )
}

export function FilterSelect({ label, value, options, onChange }: { label: string; value: string | undefined; options: Option[]; onChange: (next: string | undefined) => void }) {
  return (
    <Select
      aria-label={label}
      value={value ?? ''}
      // What is longer than the field can be read under the pointer.
      title={options.find((option) => option.value === value)?.label}
      onChange={(event) => onChange(event.target.value || undefined)}
      options={[{ value: '', label: `Any ${label.toLowerCase()}` }, ...options]}
      className="h-7! w-auto! max-w-40 px-1.5! text-xs!"
    />
  )
}

/** A search field that changes the URL once the person stops to type. */
export function FilterText({ label, value, onChange, placeholder }: { label: string; value: string | undefined; onChange: (next: string | undefined) => void; placeholder?: string }) {
  const [text, setText] = useState(value ?? '')
  const settled = useDebounced(text, 250)
  const id = useId()
  useEffect(() => {
    if (settled !== (value ?? '')) onChange(settled || undefined)
    // Only what was typed changes the URL; the URL changes the field below.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [settled])
  useEffect(() => setText(value ?? ''), [value])
  return <Input id={id} type="search" aria-label={label} placeholder={placeholder ?? label} value={text} onChange={(event) => setText(event.target.value)} className="h-7! w-36! text-xs! max-sm:w-full!" />
}
