// A rehearsal script from the record of a run: it gives the answers of the model again, in their order.
import type { Schemas } from '~/api/types'
import { toYaml } from '~/util/yaml'
import { hasParts, parseJson } from '~/util/json'

type Message = Schemas['RunMessage']
type Call = Schemas['ToolCall']
export type Recorded = {
  agentName: string
  runId: string
  /** When the first run of the chain was made. Younger ids were made by it. */
  createdAt: string
  /** The messages of the runs of the chain, each in the order in which they came. */
  runs: Message[][]
  calls: Call[]
  /** The runs below it, which use the same script. */
  below: { agentName: string; messages: Message[]; calls: Call[] }[]
  /** What the model wrote, of calls whose input a person changed. */
  originalInputs: ReadonlyMap<string, unknown>
}
export type RunScript = { yaml: string; answers: number; calls: number; input: string; notes: string[] }

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi

type AnswerContent = { text: string; thoughts?: string | null; toolCalls?: { id: string }[] }
type UserContent = { text: string; injected?: string | null }

/** When an id was made, if it says so. */
function madeAt(id: string): number | undefined {
  return id[14] === '7' ? parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : undefined
}

/** The path to a text in a value, as a template writes it. */
function pathTo(value: unknown, text: string): string | undefined {
  if (!hasParts(value)) return undefined
  for (const [key, one] of Object.entries(value)) {
    if (/[.{}\s]/.test(key)) continue
    if (one === text) return key
    const rest = pathTo(one, text)
    if (rest !== undefined) return `${key}.${rest}`
  }
  return undefined
}

/** Servers outside give JSON in a text. */
function parsed(output: unknown): unknown {
  if (typeof output !== 'string') return output
  try {
    return parseJson(output)
  } catch {
    return output
  }
}

/** Writes ids that the run made as templates of the results that they came from, because the next run makes others. */
class Writer {
  hasBraces = false
  readonly lostIds = new Set<string>()
  /** The newest result of each tool; the newest last. */
  readonly #results = new Map<string, unknown>()
  readonly #since: number
  readonly #given: string

  constructor(since: number, given: string) {
    this.#since = since
    this.#given = given
  }

  addResult(tool: string, output: unknown) {
    this.#results.delete(tool)
    this.#results.set(tool, parsed(output))
  }

  text(text: string): string {
    // A script has no way to write these but as a template.
    if (text.includes('{{')) this.hasBraces = true
    return text.replaceAll(/\{(?=\{)/g, '{ ').replaceAll(ID, (id) => this.#id(id))
  }

  value(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value)
    if (Array.isArray(value)) return value.map((one) => this.value(one))
    if (hasParts(value)) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.value(one)]))
    return value
  }

  #id(id: string): string {
    const at = madeAt(id)
    if ((at !== undefined && at < this.#since) || this.#given.includes(id)) return id
    for (const [tool, output] of [...this.#results].reverse()) {
      const path = pathTo(output, id)
      if (path) return `{{results.${tool}.${path}}}`
    }
    if (at !== undefined) this.lostIds.add(id)
    return id
  }
}

const many = (count: number, one: string, more = `${one}s`) => `${count} ${count === 1 ? one : more}`

/** The answers of a chain of runs. The summary of a run that paused is no answer of the whole, unless it is the last. */
function answersOf(runs: Message[][]): Message[] {
  const seen = new Set<string>()
  return runs.flatMap((messages, index) => {
    let isSummary = false
    return messages.filter((message) => {
      if (message.role === 'user' && (message.content as UserContent).injected && index < runs.length - 1) isSummary = true
      if (message.role !== 'assistant' || isSummary || seen.has(message.id)) return false
      seen.add(message.id)
      return true
    })
  })
}

/** The rules that give the answers of one run again. */
function rulesOf(when: object, answers: Message[], calls: Call[], writer: Writer, originalInputs: Recorded['originalInputs']) {
  const callsOf = byMessage(calls)
  return answers.map((message, index) => {
    const content = message.content as AnswerContent
    const order = content.toolCalls?.map(({ id }) => id) ?? []
    const own = (callsOf.get(message.id) ?? []).toSorted((one, other) => order.indexOf(one.id) - order.indexOf(other.id))
    const answer = {
      thought: content.thoughts ? writer.text(content.thoughts) : undefined,
      text: content.text || own.length === 0 ? writer.text(content.text) : undefined,
      calls: own.length > 0 ? own.map((call) => ({ tool: call.toolName, input: writer.value(originalInputs.get(call.id) ?? call.input) })) : undefined,
    }
    for (const call of own) writer.addResult(call.toolName, call.output)
    // A step has several answers if one was incomplete.
    const isRepeated = answers[index + 1]?.stepNumber === message.stepNumber
    return { when: { ...when, step: message.stepNumber }, ...(isRepeated && { times: 1 }), answer }
  })
}

const isSaid = (one: Message) => one.role === 'user' && !(one.content as UserContent).injected
const saidIn = (messages: Message[]) => messages.filter(isSaid).map((one) => (one.content as UserContent).text)

/** The longest part of a text without an id: the next run has others. */
const longestPart = (text: string) => text.split(ID).reduce((longest, part) => (part.length > longest.length ? part : longest), '')

export function scriptOf({ agentName, runId, createdAt, runs, calls, below, originalInputs }: Recorded): RunScript {
  const since = Date.parse(createdAt)
  const said = saidIn(runs.flat())
  const answers = answersOf(runs)
  const writers = [new Writer(since, said.join('\n'))]
  const own = rulesOf({ agent: agentName }, answers, calls, writers[0]!, originalInputs)
  // Several runs of one agent are told apart by what they were asked. Their rules come first, because the agent of the run may start itself.
  const inputs = below.map((run) => longestPart(saidIn(run.messages)[0] ?? ''))
  const others = below.map((run, index) => {
    const writer = new Writer(since, saidIn(run.messages).join('\n'))
    writers.push(writer)
    return rulesOf({ agent: run.agentName, input: inputs[index] || undefined }, answersOf([run.messages]), run.calls, writer, originalInputs)
  })
  const isTwice = below.some((run, index) => below.findIndex((other, at) => other.agentName === run.agentName && inputs[at] === inputs[index]) !== index)
  const everyCall = [...calls, ...below.flatMap((run) => run.calls)]
  const rules = [...others.flat(), ...own]
  return {
    yaml: `# What the model answered in run ${runId} of ${agentName}, step by step.\n${toYaml({ rules })}`,
    answers: rules.length,
    calls: rules.reduce((sum, rule) => sum + (rule.answer.calls?.length ?? 0), 0),
    input: said[0] ?? '',
    notes: notesOf(writers, runs, said, everyCall, isTwice, originalInputs),
  }
}

function byMessage(calls: Call[]): Map<string, Call[]> {
  const groups = new Map<string, Call[]>()
  for (const call of calls) groups.set(call.messageId, [...(groups.get(call.messageId) ?? []), call])
  return groups
}

function notesOf(writers: Writer[], runs: Message[][], said: string[], calls: Call[], isTwice: boolean, originalInputs: ReadonlyMap<string, unknown>): string[] {
  const notes: string[] = []
  const lost = [...new Set(writers.flatMap((one) => [...one.lostIds]))]
  const asked = calls.filter((call) => call.toolName === 'ask_user').length
  if (calls.length > 0) notes.push('The tools are called again, for real: what this run wrote is written once more, and results may differ from those of this run.')
  if (isTwice) notes.push('It started an agent several times with the same task. All of them get the answers of the first.')
  if (asked > 0 || originalInputs.size > 0) notes.push(originalInputs.size > 0 ? `A person changed the input of ${many(originalInputs.size, 'call')}. The script has the input of the model, and the person is asked again.` : 'A person is asked again, and may answer otherwise.')
  if (runs.length > 1) notes.push(`The run and the ${many(runs.length - 1, 'run')} that it goes on from become one, without the pauses${said.length > 1 ? ' and what was said in between' : ''}.`)
  const limit = runs.at(-1)?.find((one) => one.role === 'user' && (one.content as UserContent).injected)
  if (limit) notes.push('The run reached a limit. Start it with the same limit, otherwise the script has no answer for the steps after it.')
  if (writers.some((one) => one.hasBraces)) notes.push('An answer contains {{, which begins a template in a script. It is written as { {.')
  if (lost.length > 0) notes.push(`${many(lost.length, 'id')} of things that this run made cannot be found in the newest result of a tool. The script has ${lost.length === 1 ? 'the one' : 'those'} of this run: ${lost.slice(0, 3).join(', ')}.`)
  return notes
}

/** A text as one word of a shell. */
export const shellQuoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
