// A form from the simple properties of a JSON Schema: texts, numbers, choices and yes or no.
import { numberOf } from '~/util/json'

export type SchemaField = { name: string; label: string; hint: string | undefined; kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice'; options: string[]; isRequired: boolean }
type Schema = Record<string, unknown>

/** The fields of an object schema, or undefined if it has a part that a form cannot show. */
export function fieldsOf(schema: Schema): SchemaField[] | undefined {
  const { type, properties } = schema
  if (type !== 'object' || properties === null || typeof properties !== 'object') return undefined
  const required = Array.isArray(schema.required) ? (schema.required as string[]) : []
  const fields: SchemaField[] = []
  for (const [name, value] of Object.entries(properties as Record<string, Schema>)) {
    const common = { name, label: typeof value.title === 'string' ? value.title : name, hint: typeof value.description === 'string' ? value.description : undefined, isRequired: required.includes(name) }
    if (Array.isArray(value.enum) && value.enum.every((one) => typeof one === 'string')) fields.push({ ...common, kind: 'choice', options: value.enum as string[] })
    else if (value.type === 'string') fields.push({ ...common, kind: 'text', options: [] })
    else if (value.type === 'number' || value.type === 'integer' || value.type === 'boolean') fields.push({ ...common, kind: value.type, options: [] })
    else return undefined
  }
  // The server keeps objects sorted by name, so the order of the properties is lost; that of `required`, a list, is not.
  // What is required comes first, in that order, and then the rest by name.
  const place = (name: string) => (required.includes(name) ? required.indexOf(name) : required.length)
  fields.sort((one, other) => place(one.name) - place(other.name) || one.name.localeCompare(other.name))
  return fields.length > 0 ? fields : undefined
}

/** How a form calls a field. */
export const labelOf = ({ label, isRequired }: SchemaField) => (isRequired ? label : `${label} (optional)`)

/** The value of a form as the schema wants it. An empty field that is not required is left out. */
export function valueOf(fields: SchemaField[], texts: Record<string, string>): Record<string, unknown> {
  const value: Record<string, unknown> = {}
  for (const { name, kind, isRequired } of fields) {
    const text = texts[name] ?? ''
    if (kind === 'boolean') value[name] = text === 'true'
    else if (text === '' && !isRequired) continue
    // `90.000` may be meant as 90,000, so the server refuses it as a text.
    else if (kind === 'number' || (kind === 'integer' && !text.includes('.'))) value[name] = numberOf(text) ?? text
    else value[name] = text
  }
  return value
}
