// What a person fills in about a server of tools, and what is wrong with it before it is saved.
import type { Schemas } from '~/api/types'

type Server = Schemas['McpServer']

const asLines = (map: Record<string, string> | null | undefined, separator: string) => Object.entries(map ?? {}).map(([name, value]) => `${name}${separator}${value}`).join('\n')

export const draftOf = (server: Server | undefined) => ({
  name: server?.name ?? '',
  description: server?.description ?? '',
  transport: server?.transport ?? 'http',
  url: server?.url ?? '',
  command: server?.command ?? '',
  args: (server?.args ?? []).join('\n'),
  env: asLines(server?.env, '='),
  headers: asLines(server?.headers, ': '),
  toolFilter: (server?.toolFilter ?? []).join('\n'),
  pinPolicy: server?.pinPolicy ?? ('pin' as const),
  timeoutSeconds: String(server?.timeoutSeconds ?? 60),
  trust: server?.trust ?? false,
})

export type Draft = ReturnType<typeof draftOf>

export const lines = (text: string) => text.split('\n').map((line) => line.trim()).filter(Boolean)
export const pairs = (text: string, separator: string) => Object.fromEntries(lines(text).map((line) => [line.split(separator, 1)[0]!.trim(), line.slice(line.indexOf(separator) + 1).trim()]))

/** The patterns of the tools. No pattern means all of them here, and none of them to the API. */
export function filterOf(draft: Draft): string[] {
  const patterns = lines(draft.toolFilter)
  return patterns.length > 0 ? patterns : ['*']
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/
const ADDRESS = /^https?:\/\/[^\s/?#]\S*$/
const SECONDS = /^\d{1,4}$/
const isPair = (line: string, separator: string) => line.indexOf(separator) > 0

/** What is wrong with a draft, as far as it can be said before it is saved. What is still empty is named by `whyNotSaved`. */
export function checkDraft(draft: Draft): Partial<Record<keyof Draft, string>> {
  const problems: Partial<Record<keyof Draft, string>> = {}
  const isProgram = draft.transport === 'stdio'
  if (draft.name && !NAME.test(draft.name)) problems.name = 'Use 1 to 64 letters, digits, “-” or “_”, and start with a letter or digit.'
  if (!isProgram && draft.url && !ADDRESS.test(draft.url.trim())) problems.url = 'Write a whole address that begins with https:// or http://.'
  const [field, separator, pattern] = isProgram ? (['env', '=', 'NAME=value'] as const) : (['headers', ':', 'Name: value'] as const)
  const broken = lines(draft[field]).find((line) => !isPair(line, separator))
  if (broken) problems[field] = `“${broken}” is not ${pattern}.`
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
