// The record of a run, put together from its events. The same events always give the same record, whether they came
// at once, one by one, or over several connections.
import type { Schemas } from '~/api/types'
import { words } from '~/util/format'
import { hasParts, jsonText } from '~/util/json'

export type RunEvent = Schemas['RunEvent']
type Message = Schemas['RunMessage']
type Call = Schemas['ToolCall']

export type MessageItem = {
  kind: 'message'
  id: string
  role: Message['role']
  step: number
  text: string
  thoughts: string | undefined
  /** The limit that made the server say it. */
  injected: string | undefined
  calls: number
  tokens: Message['tokens']
  cost: number | null | undefined
  at: number
}
export type CallItem = {
  kind: 'call'
  id: string
  toolName: string
  step: number
  status: Call['status']
  /** It was not made, because a person or a rule denied it. Its status is `error`, but it did not fail. */
  denied: boolean
  /** How the run left it when it ended before the call: it was never made, or nobody knows whether it took effect. */
  unfinished?: 'not_made' | 'unknown' | undefined
  durationMs: number | null | undefined
  /** The start of the input on one line. */
  preview: string
  at: number
  endedAt: number | undefined
  /** Only kept when the record was asked to. */
  input?: unknown
  output?: unknown
}

export const hasFailed = (call: CallItem) => call.status === 'error' && !call.denied

export type NoticeTone = 'idle' | 'run' | 'wait' | 'warn' | 'fail' | 'ok' | 'pause'
export type NoticeItem = { kind: 'notice'; id: string; tone: NoticeTone; text: string; detail: string | undefined; approvalId: string | undefined; childRunId: string | undefined; at: number }
export type RecordItem = MessageItem | CallItem | NoticeItem

/** What the model is writing now. */
export type LiveText = { step: number; text: string; thoughts: string; omitted: number }
/** A time in which the model was at work, or in which the run waited for a person. */
export type Span = { id: string; step: number; from: number; to: number }

const PREVIEW = 160

export class RunRecord {
  readonly items: RecordItem[] = []
  readonly modelCalls: Span[] = []
  readonly waits: Span[] = []
  /** The requests that nobody has decided: the call that each of them is about, by the id of the request. */
  readonly requests = new Map<string, string>()
  live: LiveText | undefined
  /** How many durable events are in it. */
  events = 0
  ended = false
  #calls = new Map<string, CallItem>()
  #lastSeq = 0
  /** When what came before the next answer of the model was over. */
  #idleSince: number | undefined
  #running = 0
  readonly #keepsValues: boolean

  constructor(options: { keepsValues?: boolean } = {}) {
    this.#keepsValues = options.keepsValues ?? false
  }

  /** Since when the model is at work, if it seems to be. */
  get modelSince(): number | undefined {
    const last = this.waits.at(-1)
    if (this.ended || last?.to === Infinity || this.#running > 0) return undefined
    return this.#idleSince
  }

  add(event: RunEvent) {
    const { seq } = event
    if (seq !== null && seq !== undefined) {
      if (seq <= this.#lastSeq) return
      this.#lastSeq = seq
      this.events++
    }
    this.#take(event, Date.parse(event.at), `e${seq ?? 0}`)
  }

  #take(event: RunEvent, at: number, id: string) {
    const notice = (tone: NoticeTone, text: string, more: { detail?: string | undefined; approvalId?: string; childRunId?: string | null | undefined } = {}) =>
      this.items.push({ kind: 'notice', id, tone, text, detail: more.detail, approvalId: more.approvalId, childRunId: more.childRunId ?? undefined, at })
    switch (event.type) {
      case 'message':
        return this.#message(event.message, at)
      case 'tool_started':
        return this.#call(event.toolCall, at)
      case 'tool_completed':
        this.#idleSince = at
        return this.#call(event.toolCall, at)
      case 'run_started':
        this.live = undefined
        this.#idleSince = at
        return notice(event.recovered ? 'warn' : 'run', event.recovered ? 'Continued from its record after the server stopped' : 'Started')
      case 'servers_unavailable':
        return notice('warn', 'Some tools could not be used', { detail: [...event.servers.map((one) => `${one.server}: ${one.reason}`), ...(event.missingTools ?? []).map((name) => `${name}: there is no such tool`)].join('\n') })
      case 'loop_detected':
        return notice('warn', `Warned: it repeats ${event.toolName}`, { detail: `Call ${event.count} of the same kind was not made.` })
      case 'limit_reached':
        return notice('pause', `Reached its limit: ${words(event.reason)}`)
      case 'answer_incomplete':
        return notice('warn', `The answer was ${words(event.reason)}; the model is asked again`)
      case 'model_retry':
        // That of a run below is only streamed, without a `seq`.
        if (event.childRunId) id = `r${event.childRunId}-${event.stepNumber}-${event.attempt}`
        return notice('warn', `${event.agentName ? `The provider failed for ${event.agentName}` : 'The provider failed'}; attempt ${event.attempt + 1} follows after ${Math.round(event.waitMs / 100) / 10} s`, { detail: event.error, childRunId: event.childRunId })
      case 'compacted':
        return notice('idle', `The conversation was shortened for the model from ${event.before.toLocaleString('en')} to ${event.after.toLocaleString('en')} tokens`)
      case 'approval_requested':
        this.requests.set(event.approvalId, event.toolCallId)
        this.#hold(event.toolCallId)
        return notice('wait', event.kind === 'question' ? 'Asks a person' : `Asks a person to approve ${event.toolName}`, event)
      case 'run_waiting':
        this.waits.push({ id, step: 0, from: at, to: Infinity })
        return notice('wait', 'Waits for a person')
      case 'approval_decided':
        this.requests.delete(event.approvalId)
        this.#hold(event.toolCallId)
        return notice(event.decision === 'deny' ? 'fail' : 'ok', DECIDED[event.decision ?? ''] ?? 'Nobody decided in time', event)
      case 'run_continued':
        this.#idleSince = at
        this.#endWait(at)
        return notice('run', 'Goes on')
      case 'run_ended':
        this.ended = true
        this.requests.clear()
        this.#leaveCalls()
        this.live = undefined
        this.#endWait(at)
        return notice(ENDS[event.status] ?? 'idle', `Ended: ${event.status}`, { detail: event.errorMessage ?? (event.reason ? words(event.reason) : undefined) })
      case 'text_so_far':
        this.live = { step: event.stepNumber, text: event.text, thoughts: this.live?.step === event.stepNumber ? this.live.thoughts : '', omitted: event.omittedChars ?? 0 }
        return
      case 'text_delta':
        this.#liveOf(event.stepNumber).text += event.text
        return
      case 'thought_delta':
        this.#liveOf(event.stepNumber).thoughts += event.text
        return
      case 'step_restarted':
        this.live = undefined
        return
    }
  }

  /** A call that is not over waits for a person as long as there is a request about it. */
  #hold(callId: string) {
    const call = this.#calls.get(callId)
    if (call && call.endedAt === undefined) call.status = [...this.requests.values()].includes(callId) ? 'held' : 'running'
  }

  /** Nothing is made or decided any more: a call that waited for a person was not made. */
  #leaveCalls() {
    this.#running = 0
    for (const call of this.#calls.values()) if (call.endedAt === undefined) call.unfinished = call.status === 'held' ? 'not_made' : 'unknown'
  }

  /** The time that counts against the timeout of a run that started at `startedAt`: it stands still during waits. */
  timeUsed(startedAt: number, until: number): number {
    const waited = this.waits.reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, until) - from), 0)
    return Math.max(0, until - startedAt - waited)
  }

  #endWait(at: number) {
    const wait = this.waits.at(-1)
    if (wait && wait.to === Infinity) wait.to = at
  }

  #liveOf(step: number): LiveText {
    if (this.live?.step !== step) this.live = { step, text: '', thoughts: '', omitted: 0 }
    return this.live
  }

  #message(message: Message, at: number) {
    if (message.role === 'tool_result') return
    const content = message.content as { text: string; thoughts?: string | null; toolCalls?: unknown[]; injected?: string | null }
    if (message.role === 'assistant') {
      this.modelCalls.push({ id: message.id, step: message.stepNumber, from: this.#idleSince ?? at, to: at })
      this.#idleSince = at
      this.live = undefined
    }
    this.items.push({
      kind: 'message',
      id: message.id,
      role: message.role,
      step: message.stepNumber,
      text: content.text,
      thoughts: content.thoughts ?? undefined,
      injected: content.injected ?? undefined,
      calls: content.toolCalls?.length ?? 0,
      tokens: message.tokens,
      cost: message.cost,
      at,
    })
  }

  #call(call: Call, at: number) {
    const known = this.#calls.get(call.id)
    const isOver = call.status === 'completed' || call.status === 'error'
    const changes = { status: call.status, denied: call.denied ?? false, unfinished: undefined, durationMs: call.durationMs, endedAt: isOver ? at : undefined }
    if (known) {
      if (known.endedAt === undefined && isOver) this.#running--
      Object.assign(known, changes, { preview: preview(call.input) })
      if (this.#keepsValues) Object.assign(known, { input: call.input, output: call.output })
      if (this.requests.size > 0) this.#hold(call.id)
      return
    }
    const item: CallItem = { kind: 'call', id: call.id, toolName: call.toolName, step: call.stepNumber, preview: preview(call.input), at: isOver ? at - (call.durationMs ?? 0) : at, ...changes }
    if (this.#keepsValues) Object.assign(item, { input: call.input, output: call.output })
    if (!isOver) this.#running++
    this.#calls.set(call.id, item)
    this.items.push(item)
    if (this.requests.size > 0) this.#hold(call.id)
  }
}

const DECIDED: Record<string, string> = { approve: 'A person approved the call', deny: 'A person denied it', answer: 'A person answered' }
const ENDS: Record<string, NoticeTone> = { completed: 'ok', failed: 'fail', paused: 'pause', cancelled: 'idle' }

function preview(input: unknown): string {
  if (!hasParts(input)) return String(input ?? '').slice(0, PREVIEW)
  const text = Object.entries(input)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : jsonText(value)}`)
    .join(', ')
  return text.slice(0, PREVIEW)
}
