import { type ReactNode, useEffect, useRef, useState } from 'react'
import { type AmountRules, amountOf, amountProblem, amountText } from '~/util/amount'
import { Field, Input } from './Field'

type Props = AmountRules & {
  label: ReactNode
  hint?: ReactNode
  problem?: string | undefined
  placeholder?: string | undefined
  value: number | null | undefined
  /** Gets the number as soon as the text is one, also one that the field does not take, and `null` when the field is empty. */
  onChange: (value: number | null) => void
  /** Says whether the text is no number now. */
  onBroken?: (isBroken: boolean) => void
}

/**
 * A field of a number. A text that is none is said while it is typed, is no value, and makes the form of the field
 * invalid. The browser's own number field has no value either way, so that `80000-` would be the same as nothing.
 */
export function NumberField({ label, hint, problem, placeholder, value, onChange, onBroken, ...rules }: Props) {
  const [text, setText] = useState(() => amountText(value))
  const input = useRef<HTMLInputElement>(null)
  const number = amountOf(text, rules.whole)
  const wrong = amountProblem(text, rules)
  // What is typed stays as it is, until somebody else sets another number.
  const shown = wrong !== undefined || number === (value ?? null) ? text : amountText(value)
  useEffect(() => input.current?.setCustomValidity(wrong ?? ''), [wrong])
  const change = (next: string) => {
    setText(next)
    const read = amountOf(next, rules.whole)
    onBroken?.(Number.isNaN(read))
    if (!Number.isNaN(read)) onChange(read)
  }
  return (
    <Field label={label} hint={hint} problem={Number.isNaN(number) ? wrong : (problem ?? wrong)}>
      {(ids) => <Input {...ids} ref={input} inputMode={rules.whole ? 'numeric' : 'decimal'} placeholder={placeholder} value={shown} onChange={(event) => change(event.target.value)} />}
    </Field>
  )
}
