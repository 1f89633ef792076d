import { useState } from 'react'
import { jsonText, parseJson } from '~/util/json'
import { Field, Textarea } from './Field'

type Props = {
  label: string
  hint?: string
  value: unknown
  /** Gets the value as soon as the text is JSON, and `undefined` when the text is empty. */
  onChange: (value: unknown) => void
  /** Says whether the text is no JSON now. */
  onBroken?: (isBroken: boolean) => void
  problem?: string | undefined
  readOnly?: boolean
  rows?: number
}

const asText = (value: unknown) => (value === undefined || value === null ? '' : jsonText(value, 2))

/** A field whose text is JSON. What is no JSON is said while it is typed. */
export function JsonField({ label, hint, value, onChange, onBroken, problem, readOnly, rows = 5 }: Props) {
  const [text, setText] = useState(() => asText(value))
  const [broken, setBroken] = useState<string>()
  const change = (next: string) => {
    setText(next)
    try {
      const parsed: unknown = next.trim() ? parseJson(next) : undefined
      setBroken(undefined)
      onBroken?.(false)
      onChange(parsed)
    } catch (error) {
      setBroken(`This is not JSON: ${(error as Error).message}`)
      onBroken?.(true)
    }
  }
  return (
    <Field label={label} hint={hint} problem={broken ?? problem}>
      {(ids) => <Textarea {...ids} rows={rows} readOnly={readOnly} value={text} onChange={(event) => change(event.target.value)} className="font-mono text-xs!" />}
    </Field>
  )
}
