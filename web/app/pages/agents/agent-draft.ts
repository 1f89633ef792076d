import type { Agent, Schemas } from '~/api/types'

export type Draft = Schemas['CreateAgent']
type Tool = Schemas['Tool']

/** A model as its parts. The API also takes one text, `provider/name`. */
export function modelOf(choice: Draft['model']): Schemas['Model'] | undefined {
  if (typeof choice !== 'string') return choice ?? undefined
  const at = choice.indexOf('/')
  return at < 0 ? { name: choice } : { provider: choice.slice(0, at), name: choice.slice(at + 1) }
}

/** A name that was typed without a provider may name it as well: `provider/name`. */
export function splitModel(name: string, provider: string | null | undefined): { provider?: string; name: string } {
  const at = name.indexOf('/')
  return provider || at < 1 || at === name.length - 1 ? { name } : { provider: name.slice(0, at).trim(), name: name.slice(at + 1).trim() }
}

/** The fields of a definition, in the order in which they are shown. */
export const FIELDS = ['name', 'description', 'systemPrompt', 'model', 'tools', 'visibility', 'isDefault', 'maxSteps', 'defaultTimeout', 'trigger', 'flowType', 'flowConfig', 'approvals', 'outputSchema', 'acp', 'config'] as const

export const EMPTY: Draft = { name: '', description: '', systemPrompt: '', tools: [], visibility: 'project' }

/** The definition of an agent as a request that would create it. */
export function draftOf(agent: Agent): Draft {
  const draft: Record<string, unknown> = {}
  for (const field of FIELDS) {
    const value = agent[field]
    if (value !== null && value !== undefined) draft[field] = value
  }
  return draft as unknown as Draft
}

/** What a request has to say to make `before` into `after`. Null takes a field away. */
export function changesBetween(before: Draft, after: Draft): Record<string, unknown> {
  const changes: Record<string, unknown> = {}
  for (const field of FIELDS) {
    const [old, next] = [before[field] ?? null, after[field] ?? null]
    if (JSON.stringify(old) !== JSON.stringify(next)) changes[field] = next
  }
  return changes
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const KNOWN_MODEL = /^(gemini-|gpt-|o\d|claude-)/

/** Whether a limit is one that the API takes. */
const isWhole = (value: number | null | undefined, most: number) => value == null || (Number.isInteger(value) && value >= 1 && value <= most)

type Fits = (value: unknown) => boolean
const isText: Fits = (value) => typeof value === 'string'
const isNumber: Fits = (value) => typeof value === 'number'
const isObject: Fits = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const isTexts: Fits = (value) => Array.isArray(value) && value.every(isText)
const isModel: Fits = (value) => {
  if (isText(value) || !isObject(value)) return isText(value)
  const { name, provider, temperature, maxTokens } = value as Record<string, unknown>
  return isText(name) && (provider == null || isText(provider)) && [temperature, maxTokens].every((one) => one == null || isNumber(one))
}

/** What the fields of the form can show, and what each of them has to be. */
const SHAPES: [keyof Draft, Fits, string][] = [
  ...(['name', 'description', 'systemPrompt', 'visibility', 'trigger', 'flowType'] as const).map((field): [keyof Draft, Fits, string] => [field, isText, 'a text']),
  ...(['maxSteps', 'defaultTimeout'] as const).map((field): [keyof Draft, Fits, string] => [field, isNumber, 'a number']),
  ['tools', isTexts, 'a list of names'],
  ['model', isModel, 'a name, or an object such as { "provider": "google", "name": "gemini-2.5-flash" }'],
  ['isDefault', (value) => typeof value === 'boolean', 'true or false'],
]

/** Why JSON is no definition that a form can show. A field that no agent has would be lost without a word. */
export function shapeProblem(draft: unknown): string | undefined {
  if (!isObject(draft)) return 'This has to be an object: { "name": "…" }.'
  const unknown = Object.keys(draft as object).filter((field) => !(FIELDS as readonly string[]).includes(field)).map((field) => `\`${field}\``)
  if (unknown.length > 0) return unknown.length === 1 ? `${unknown[0]} is no field of an agent.` : `${unknown.join(', ')} are no fields of an agent.`
  const wrong = SHAPES.find(([field, fits]) => (draft as Draft)[field] != null && !fits((draft as Draft)[field]))
  return wrong && `\`${wrong[0]}\` has to be ${wrong[2]}.`
}

/** What is wrong with a draft whose name must not be one of those that are taken, as far as it can be said before it is saved. */
export function checkDraft(draft: Draft, tools: Tool[] | undefined, taken: readonly string[] = []): Record<string, string> {
  const problems: Record<string, string> = {}
  if (draft.name && !NAME.test(draft.name)) problems.name = 'Use 1 to 100 letters, digits, “-”, “_” or “.”, and start with a letter or digit.'
  else if (taken.includes(draft.name)) problems.name = 'There is an agent of this name already.'
  const model = modelOf(draft.model)
  if (model && !model.name) problems.model = 'Name the model, or leave the provider empty as well.'
  else if (model && !model.provider && !KNOWN_MODEL.test(model.name)) problems.model = 'Name the provider of this model as well, or write provider/model.'
  else if (model?.temperature != null && !(model.temperature >= 0 && model.temperature <= 2)) problems.model = 'Use a temperature from 0 to 2.'
  else if (!isWhole(model?.maxTokens, Infinity)) problems.model = 'Use at least 1 token per answer.'
  if (!isWhole(draft.maxSteps, 500)) problems.maxSteps = 'Use 1 to 500 steps.'
  if (!isWhole(draft.defaultTimeout, 86_400)) problems.defaultTimeout = 'Use 1 to 86,400 seconds.'
  const unknown = tools && draft.tools?.filter((name) => !name.includes('*') && !name.includes('?') && !isKnown(name, tools))
  if (unknown && unknown.length > 0) problems.tools = `There is no tool ${unknown.map((name) => `“${name}”`).join(', ')}.`
  return problems
}

/** Why a draft cannot be saved. Tools do not count: the one that is not known may be of a server that was not reached yet. */
export function whyNotSaved(draft: Draft, broken: ReadonlySet<string>, taken: readonly string[] = []): string | undefined {
  if (broken.size > 0) return 'Correct the JSON first.'
  const wrong = shapeProblem(draft)
  if (wrong) return wrong
  if (!draft.name) return 'Give the agent a name.'
  return Object.values(checkDraft(draft, undefined, taken))[0]
}

const isKnown = (name: string, tools: Tool[]) => tools.some((tool) => tool.name === name || tool.calledAs === name || tool.qualifiedName === name || tool.aliases.includes(name))
