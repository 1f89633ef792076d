// What a person fills in about a server of tools, and what is wrong with it before it is saved.
import type { Schemas } from '~/api/types'
import { parseJson } from '~/util/json'
import { listText, partsOf, readList } from '~/util/typed-list'

type Server = Schemas['McpServer']
type Map = Record<string, string>

const jsonOf = (text: string): unknown => {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}
const isJson = (text: string) => text.trimStart().startsWith('{')
const lines = (text: string) => readList(text, '\n') as string[]

/** Names with their values: one pair on each line, or as JSON. */
export const pairs = (text: string, separator: string) => (isJson(text) ? (jsonOf(text) as Map) : Object.fromEntries(partsOf(text, '\n').map((line) => [line.split(separator, 1)[0]!.trim(), line.slice(line.indexOf(separator) + 1).trim()])))

/** Pairs as lines, or as JSON where lines would change them. */
export function pairsText(map: Map | null | undefined, separator: string): string {
  const text = Object.entries(map ?? {}).map((pair) => pair.join(separator)).join('\n')
  return JSON.stringify(pairs(text, separator.trim())) === JSON.stringify(map ?? {}) ? text : JSON.stringify(map, null, 2)
}

export const draftOf = (server: Server | undefined) => ({
  name: server?.name ?? '',
  description: server?.description ?? '',
  transport: server?.transport ?? 'http',
  url: server?.url ?? '',
  command: server?.command ?? '',
  args: listText(server?.args ?? [], '\n'),
  env: pairsText(server?.env, '='),
  headers: pairsText(server?.headers, ': '),
  toolFilter: listText(server?.toolFilter ?? ['*'], '\n'),
  pinPolicy: server?.pinPolicy ?? ('pin' as const),
  timeoutSeconds: String(server?.timeoutSeconds ?? 60),
  trust: server?.trust ?? false,
})

export type Draft = ReturnType<typeof draftOf>

/** The request that a draft stands for. */
export const requestOf = (draft: Draft) => ({
  name: draft.name,
  description: draft.description,
  transport: draft.transport,
  ...(draft.transport === 'stdio' ? { command: draft.command || null, args: lines(draft.args), env: pairs(draft.env, '=') } : { url: draft.url.trim() || null, headers: pairs(draft.headers, ':') }),
  toolFilter: lines(draft.toolFilter),
  pinPolicy: draft.pinPolicy,
  timeoutSeconds: Number(draft.timeoutSeconds),
  trust: draft.trust,
})
type Request = ReturnType<typeof requestOf>

/** What was changed since the draft was opened. The server keeps the rest as it is. */
export function changesOf(opened: Draft, draft: Draft): Partial<Request> {
  return Object.fromEntries(Object.entries(requestOf(draft)).filter(([field]) => draft[field as keyof Draft] !== opened[field as keyof Draft]))
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/
const ADDRESS = /^https?:\/\/[^\s/?#]\S*$/
const SECONDS = /^\d{1,4}$/
const isPair = (line: string, separator: string) => line.indexOf(separator) > 0
const isTexts = (value: unknown) => typeof value === 'object' && value !== null && Object.values(value).every((one) => typeof one === 'string')

/** What is wrong with a draft, as far as it can be said before it is saved. What is still empty is named by `whyNotSaved`. */
export function checkDraft(draft: Draft): Partial<Record<keyof Draft, string>> {
  const problems: Partial<Record<keyof Draft, string>> = {}
  const isProgram = draft.transport === 'stdio'
  if (draft.name && !NAME.test(draft.name)) problems.name = 'Use 1 to 64 letters, digits, “-” or “_”, and start with a letter or digit.'
  if (!isProgram && draft.url && !ADDRESS.test(draft.url.trim())) problems.url = 'Write a whole address that begins with https:// or http://.'
  const [field, separator, pattern] = isProgram ? (['env', '=', 'NAME=value'] as const) : (['headers', ':', 'Name: value'] as const)
  const broken = isJson(draft[field]) ? undefined : partsOf(draft[field], '\n').find((line) => !isPair(line, separator))
  if (broken) problems[field] = `“${broken}” is not ${pattern}.`
  if (isJson(draft[field]) && !isTexts(jsonOf(draft[field]))) problems[field] = 'Write JSON whose values are texts: { "NAME": "value" }.'
  for (const list of ['args', 'toolFilter'] as const) if ((isProgram || list !== 'args') && lines(draft[list]).some((one) => typeof one !== 'string')) problems[list] = 'Write a JSON list of texts: ["one", "two"].'
  const seconds = Number(draft.timeoutSeconds)
  if (!SECONDS.test(draft.timeoutSeconds.trim()) || seconds < 1 || seconds > 3600) problems.timeoutSeconds = 'Use 1 to 3,600 seconds.'
  return problems
}

/** Why a draft cannot be saved. Of the server of a product only what is not the product's is looked at. */
export function whyNotSaved(draft: Draft, product: string | null | undefined): string | undefined {
  const problems = checkDraft(draft)
  if (product) return problems.timeoutSeconds
  if (!draft.name) return 'Give the server a name.'
  if (draft.transport === 'stdio' ? !draft.command.trim() : !draft.url.trim()) return draft.transport === 'stdio' ? 'Name the program.' : 'Give its address.'
  return Object.values(problems)[0]
}
