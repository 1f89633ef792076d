import { History } from 'lucide-react'
import { useEffect, useId, useRef, useState } from 'react'
import { useDebounced } from '~/hooks/use-debounced'
import { formatAbsolute } from '~/util/format'
import { localTime } from '~/util/periods'
import { Button } from './Button'
import { Input } from './Field'

const shownTime = (time: string | undefined) => localTime(time, 19)

/**
 * A moment of the past. Each part that is typed is a moment of its own, such as the year 0002 on the way to 2026, so
 * the page follows only when the person leaves the field, presses Enter or pauses.
 */
export function AsOfField({ value, onChange }: { value: string | undefined; onChange: (next: string | undefined) => void }) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const [text, setText] = useState(shownTime(value))
  const [max, setMax] = useState(() => shownTime(new Date().toISOString()))
  const settled = useDebounced(text, 800)
  const commit = () => {
    // A field with only some of its parts has no value yet; that is not the same as an empty one.
    if (text === shownTime(value) || field.current?.validity.badInput) return
    const next = text ? new Date(Math.min(Date.parse(text), Date.now())).toISOString() : undefined
    setText(shownTime(next))
    onChange(next)
  }
  useEffect(() => {
    // A moment to come may be half typed. Leaving the field or Enter makes it now.
    if (settled === text && field.current?.validity.valid) commit()
    // Only what was typed changes the URL; the URL changes the field below.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [settled])
  useEffect(() => setText(shownTime(value)), [value])
  return (
    <label htmlFor={id} className="inline-flex items-center gap-1.5 text-xs font-normal text-text-2">
      As of
      <Input
        id={id}
        type="datetime-local"
        ref={field}
        step={1}
        max={max}
        value={text}
        onFocus={() => setMax(shownTime(new Date().toISOString()))}
        onChange={(event) => setText(event.target.value)}
        onBlur={commit}
        onKeyDown={(event) => event.key === 'Enter' && commit()}
        className="h-7! w-auto! text-xs!"
      />
    </label>
  )
}

/** Says that a page shows the past. */
export function AsOfBanner({ asOf, onLeave, children }: { asOf: string; onLeave: () => void; children?: string }) {
  return (
    <div role="status" className="mb-4 flex flex-wrap items-center gap-x-3 gap-y-2 rounded-lg border border-line bg-warn-soft px-4 py-2.5 text-warn">
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
