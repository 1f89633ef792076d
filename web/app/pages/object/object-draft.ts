// What a person types about an object, and the request that it becomes.
import { ApiError } from '~/api/errors'
import type { GraphObject, TemplatePack } from '~/api/graph'
import { hasParts, jsonText, numberOf, parseJson } from '~/util/json'
import { listText, readList } from '~/util/typed-list'

type Kind = 'text' | 'number' | 'boolean' | 'choice' | 'list' | 'json'
export type SchemaField = { name: string; kind: Kind; choices: string[]; isRequired: boolean; hint: string | undefined }

export type Draft = { type: string; key: string; status: string; labels: string; values: Record<string, string>; further: string }
/** The object that is edited, and the draft that was made of it. */
export type Opened = { object: Pick<GraphObject, 'type' | 'key' | 'status' | 'labels' | 'properties'>; draft: Draft }
export type Problems = Record<string, string>

type JsonSchema = { type?: string | string[]; enum?: unknown[]; items?: { type?: string }; description?: string }

function kindOf(schema: JsonSchema): Kind {
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== 'null') : schema.type
  if (schema.enum?.every((value) => typeof value === 'string')) return 'choice'
  if (type === 'string') return 'text'
  if (type === 'number' || type === 'integer') return 'number'
  if (type === 'boolean') return 'boolean'
  if (type === 'array' && schema.items?.type === 'string') return 'list'
  return 'json'
}

/** The fields that the assigned packs define for a type, required ones first. */
export function schemaFields(packs: readonly TemplatePack[], type: string): SchemaField[] {
  const fields = new Map<string, SchemaField>()
  for (const pack of packs) {
    const schema = pack.objectTypeSchemas[type] as { properties?: Record<string, JsonSchema>; required?: string[] } | undefined
    for (const [name, property] of Object.entries(schema?.properties ?? {})) {
      const isRequired = schema?.required?.includes(name) ?? false
      if (!fields.has(name)) fields.set(name, { name, kind: kindOf(property), choices: (property.enum ?? []) as string[], isRequired, hint: property.description })
      else if (isRequired) fields.get(name)!.isRequired = true
    }
  }
  return [...fields.values()].sort((a, b) => Number(b.isRequired) - Number(a.isRequired))
}

/** The fields of the type that is typed now, and those of the type before that have a value: nothing disappears with its field. */
export function fieldsOf(packs: readonly TemplatePack[], draft: Draft, { type, properties }: Opened['object']): SchemaField[] {
  const fields = schemaFields(packs, draft.type.trim()).filter(({ name }) => name in draft.values || !(name in properties))
  const former = schemaFields(packs, type).filter(({ name }) => name in properties && name in draft.values && fields.every((field) => field.name !== name))
  return [...fields, ...former.map((field) => ({ ...field, isRequired: false }))]
}

function asText(value: unknown, kind: Kind): string {
  if (value === undefined || value === null) return ''
  if (kind === 'list' && Array.isArray(value)) return listText(value, '\n')
  if (kind === 'json' || typeof value === 'object') return jsonText(value, 2)
  return String(value)
}

export function toDraft(object: Opened['object'] | undefined, fields: SchemaField[], type = ''): Draft {
  const known = new Set(fields.map((field) => field.name))
  const properties = object?.properties ?? {}
  const further = Object.fromEntries(Object.entries(properties).filter(([name]) => !known.has(name)))
  return {
    type: object?.type ?? type,
    key: object?.key ?? '',
    status: object?.status ?? '',
    labels: listText(object?.labels ?? [], ', '),
    values: Object.fromEntries(fields.map((field) => [field.name, asText(properties[field.name], field.kind)])),
    further: jsonText(further, 2),
  }
}

function parseValue(text: string, kind: Kind): unknown {
  if (kind === 'number') {
    const number = numberOf(text)
    if (number === undefined) throw new Error('This is not a number.')
    return number
  }
  if (kind === 'boolean') return text === 'true'
  if (kind === 'list') return readList(text, '\n')
  if (kind === 'json') {
    try {
      return parseJson(text)
    } catch (error) {
      throw new Error(`This is not JSON: ${(error as Error).message}`, { cause: error })
    }
  }
  return text
}

export type Parsed = { type: string; key: string | null; status: string | null; labels: string[]; properties: Record<string, unknown> }

/** The object that a draft describes, or what is wrong with it, by field. A text that nobody touched stands for the value that it was made of. */
export function parseDraft(draft: Draft, fields: SchemaField[], opened?: Opened): { parsed: Parsed | undefined; problems: Problems } {
  const problems: Problems = {}
  let properties: Record<string, unknown> = {}
  try {
    const further: unknown = draft.further.trim() === '' ? {} : parseValue(draft.further, 'json')
    if (!hasParts(further) || Array.isArray(further)) throw new Error('This has to be a JSON object: { "name": "value" }.')
    properties = { ...further }
  } catch (error) {
    problems.properties = (error as Error).message
  }
  for (const field of fields) {
    const text = draft.values[field.name] ?? ''
    if (opened && text === opened.draft.values[field.name]) {
      if (field.name in opened.object.properties) properties[field.name] = opened.object.properties[field.name]
      continue
    }
    if (text.trim() === '') continue
    try {
      properties[field.name] = parseValue(text, field.kind)
    } catch (error) {
      problems[`properties.${field.name}`] = (error as Error).message
    }
  }
  if (draft.type.trim() === '') problems.type = 'Name a type, such as Person.'
  const typed = { type: draft.type.trim(), key: draft.key.trim() || null, status: draft.status.trim() || null, labels: readList(draft.labels, ', ') as string[] }
  if (opened) for (const name of ['type', 'key', 'status', 'labels'] as const) if (draft[name] === opened.draft[name]) Object.assign(typed, { [name]: opened.object[name] })
  const parsed = { ...typed, properties }
  return { parsed: Object.keys(problems).length > 0 ? undefined : parsed, problems }
}

/** The properties of a PATCH that turn one set into another: what is gone becomes null. */
export function propertyChanges(before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  const changes: Record<string, unknown> = {}
  for (const name of Object.keys(before)) if (!(name in after)) changes[name] = null
  for (const [name, value] of Object.entries(after)) if (jsonText(before[name]) !== jsonText(value)) changes[name] = value
  return changes
}

/** What the API says about each field. */
export function apiProblems(error: unknown): Problems {
  if (!(error instanceof ApiError) || !Array.isArray(error.details)) return {}
  const problems: Problems = {}
  for (const { field, reason } of error.details as { field?: string; reason?: string }[]) {
    if (field && reason) problems[field] = problems[field] ? `${problems[field]}; ${reason}` : reason
  }
  return problems
}
