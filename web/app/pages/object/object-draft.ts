// What a person types about an object, and the request that it becomes.
import { ApiError } from '~/api/errors'
import type { GraphObject, TemplatePack } from '~/api/graph'

type Kind = 'text' | 'number' | 'boolean' | 'choice' | 'list' | 'json'
export type SchemaField = { name: string; kind: Kind; choices: string[]; isRequired: boolean; hint: string | undefined }

export type Draft = { type: string; key: string; status: string; labels: string; values: Record<string, string>; further: string }
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

function asText(value: unknown, kind: Kind): string {
  if (value === undefined) return ''
  if (kind === 'list' && Array.isArray(value)) return value.join(', ')
  if (kind === 'json' || typeof value === 'object') return JSON.stringify(value, null, 2)
  return String(value)
}

export function toDraft(object: Pick<GraphObject, 'type' | 'key' | 'status' | 'labels' | 'properties'> | undefined, fields: SchemaField[], type = ''): Draft {
  const known = new Set(fields.map((field) => field.name))
  const properties = object?.properties ?? {}
  const further = Object.fromEntries(Object.entries(properties).filter(([name]) => !known.has(name)))
  return {
    type: object?.type ?? type,
    key: object?.key ?? '',
    status: object?.status ?? '',
    labels: object?.labels.join(', ') ?? '',
    values: Object.fromEntries(fields.map((field) => [field.name, asText(properties[field.name], field.kind)])),
    further: JSON.stringify(further, null, 2),
  }
}

const splitList = (text: string) => text.split(',').map((part) => part.trim()).filter(Boolean)

function parseValue(text: string, kind: Kind): unknown {
  if (kind === 'number') {
    const number = Number(text)
    if (Number.isNaN(number)) throw new Error('This is not a number.')
    return number
  }
  if (kind === 'boolean') return text === 'true'
  if (kind === 'list') return splitList(text)
  if (kind === 'json') {
    try {
      return JSON.parse(text) as unknown
    } catch (error) {
      throw new Error(`This is not JSON: ${(error as Error).message}`, { cause: error })
    }
  }
  return text
}

export type Parsed = { type: string; key: string | null; status: string | null; labels: string[]; properties: Record<string, unknown> }

/** The object that a draft describes, or what is wrong with it, by field. */
export function parseDraft(draft: Draft, fields: SchemaField[]): { parsed: Parsed | undefined; problems: Problems } {
  const problems: Problems = {}
  let properties: Record<string, unknown> = {}
  try {
    const further: unknown = draft.further.trim() === '' ? {} : parseValue(draft.further, 'json')
    if (further === null || typeof further !== 'object' || Array.isArray(further)) throw new Error('This has to be a JSON object: { "name": "value" }.')
    properties = { ...further }
  } catch (error) {
    problems.properties = (error as Error).message
  }
  for (const field of fields) {
    const text = draft.values[field.name] ?? ''
    if (text.trim() === '') continue
    try {
      properties[field.name] = parseValue(text, field.kind)
    } catch (error) {
      problems[`properties.${field.name}`] = (error as Error).message
    }
  }
  if (draft.type.trim() === '') problems.type = 'Name a type, such as Person.'
  const parsed = { type: draft.type.trim(), key: draft.key.trim() || null, status: draft.status.trim() || null, labels: splitList(draft.labels), properties }
  return { parsed: Object.keys(problems).length > 0 ? undefined : parsed, problems }
}

/** The properties of a PATCH that turn one set into another: what is gone becomes null. */
export function propertyChanges(before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  const changes: Record<string, unknown> = {}
  for (const name of Object.keys(before)) if (!(name in after)) changes[name] = null
  for (const [name, value] of Object.entries(after)) if (JSON.stringify(before[name]) !== JSON.stringify(value)) changes[name] = value
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
