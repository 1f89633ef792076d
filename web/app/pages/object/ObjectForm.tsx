import { useId, useState } from 'react'
import { Field, Input, Select, Textarea } from '~/ui/Field'
import type { Draft, Problems, SchemaField } from './object-draft'

type Props = {
  draft: Draft
  onChange: (next: Draft) => void
  fields: SchemaField[]
  problems: Problems
  types: string[]
}

/** Problems of places inside a property are shown at the property. */
function problemOf(problems: Problems, field: string): string | undefined {
  const found = Object.entries(problems).filter(([name]) => name === field || name.startsWith(`${field}.`) || name.startsWith(`${field}[`))
  return found.length > 0 ? found.map(([name, text]) => (name === field ? text : `${name.slice(field.length + 1)}: ${text}`)).join('; ') : undefined
}

/** The fields of an object: those that a pack defines, and JSON for the rest. */
export function ObjectForm({ draft, onChange, fields, problems, types }: Props) {
  const list = useId()
  const set = (change: Partial<Draft>) => onChange({ ...draft, ...change })
  const known = new Set(fields.map((field) => field.name))
  const furtherProblem = Object.entries(problems).filter(([name]) => name === 'properties' || (name.startsWith('properties.') && !known.has(name.split(/[.[]/)[1] ?? '')))
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <Field label="Type" problem={problems.type}>
        {(ids) => (
          <>
            <Input {...ids} list={list} value={draft.type} placeholder="Person" onChange={(event) => set({ type: event.target.value })} />
            <datalist id={list}>
              {types.map((type) => (
                <option key={type} value={type}>
                  {type}
                </option>
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label="Key" problem={problems.key} hint="Unique for its type; it may stay empty.">
        {(ids) => <Input {...ids} value={draft.key} placeholder="ada-lovelace" onChange={(event) => set({ key: event.target.value })} />}
      </Field>
      {fields.map((field) => (
        <SchemaInput key={field.name} field={field} value={draft.values[field.name] ?? ''} problem={problemOf(problems, `properties.${field.name}`)} onChange={(value) => set({ values: { ...draft.values, [field.name]: value } })} />
      ))}
      <Field
        className="sm:col-span-2"
        label={fields.length > 0 ? 'Further properties (JSON)' : 'Properties (JSON)'}
        problem={furtherProblem.length > 0 ? furtherProblem.map(([name, text]) => (name === 'properties' ? text : `${name.slice(11)}: ${text}`)).join('; ') : undefined}
        hint={fields.length > 0 ? 'What the schema of this type does not name.' : draft.type ? 'No assigned template pack describes this type, so anything is allowed.' : undefined}
      >
        {(ids) => <Textarea {...ids} rows={fields.length > 0 ? 3 : 8} className="font-mono text-xs!" value={draft.further} onChange={(event) => set({ further: event.target.value })} />}
      </Field>
      <Field label="Status" problem={problems.status}>
        {(ids) => <Input {...ids} value={draft.status} placeholder="open" onChange={(event) => set({ status: event.target.value })} />}
      </Field>
      <Field label="Labels" problem={problemOf(problems, 'labels')} hint="Separated by commas.">
        {(ids) => <Input {...ids} value={draft.labels} placeholder="history, mathematics" onChange={(event) => set({ labels: event.target.value })} />}
      </Field>
    </div>
  )
}

const LONG = /description|summary|text|content|body|notes?$/i
const NOTES: Partial<Record<SchemaField['kind'], string>> = { list: 'One on each line.', json: 'As JSON.' }

function SchemaInput({ field, value, problem, onChange }: { field: SchemaField; value: string; problem: string | undefined; onChange: (next: string) => void }) {
  const { kind, name } = field
  // A field of one line would join the lines of a text.
  const [hasLines] = useState(() => value.includes('\n'))
  const isLong = kind === 'json' || kind === 'list' || (kind === 'text' && (hasLines || LONG.test(name)))
  const hint = [field.hint, NOTES[kind]].filter(Boolean).join(' ')
  return (
    <Field
      className={isLong ? 'sm:col-span-2' : ''}
      label={
        <>
          {name}
          {field.isRequired && <span className="font-normal text-text-3"> · required</span>}
        </>
      }
      problem={problem}
      hint={hint || undefined}
    >
      {(ids) => {
        if (kind === 'choice') return <Select {...ids} value={value} onChange={(event) => onChange(event.target.value)} options={[{ value: '', label: '–' }, ...field.choices.map((choice) => ({ value: choice, label: choice }))]} />
        if (kind === 'boolean') return <Select {...ids} value={value} onChange={(event) => onChange(event.target.value)} options={[{ value: '', label: '–' }, { value: 'true', label: 'Yes' }, { value: 'false', label: 'No' }]} />
        if (isLong) return <Textarea {...ids} rows={3} className={kind === 'json' ? 'font-mono text-xs!' : ''} value={value} onChange={(event) => onChange(event.target.value)} />
        return <Input {...ids} inputMode={kind === 'number' ? 'decimal' : undefined} value={value} onChange={(event) => onChange(event.target.value)} />
      }}
    </Field>
  )
}
