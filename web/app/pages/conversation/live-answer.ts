// The answer that is being written, made of the frames of the stream.
import type { ChatFrame, ChatMeta } from '~/api/chat'

type ToolFrame = Extract<ChatFrame, { type: 'mcp_tool' }>
export type TextPart = { kind: 'text'; step: number; text: string }
export type ToolPart = { kind: 'tool' } & Omit<ToolFrame, 'type'>
export type Part = TextPart | ToolPart
export type LiveAnswer = { meta: ChatMeta; parts: Part[]; error: string | undefined; isDone: boolean }

/** Adds a frame to an answer. `meta` begins one: what came before belongs to another answer, or comes again. */
export function withFrame(answer: LiveAnswer | undefined, frame: ChatFrame): LiveAnswer | undefined {
  if (frame.type === 'meta') return { meta: frame, parts: [], error: undefined, isDone: false }
  if (!answer) return undefined
  switch (frame.type) {
    case 'token':
      return { ...answer, parts: withText(answer.parts, frame.step, frame.text, frame.replace ?? false) }
    case 'mcp_tool':
      return { ...answer, parts: withTool(answer.parts, frame) }
    case 'error':
      return { ...answer, error: frame.error.message }
    case 'done':
      return { ...answer, isDone: true }
  }
}

function withText(parts: Part[], step: number, text: string, replace: boolean): Part[] {
  const at = parts.findLastIndex((part) => part.kind === 'text' && part.step === step)
  if (at < 0) return [...parts, { kind: 'text', step, text }]
  const known = parts[at] as TextPart
  return parts.with(at, { ...known, text: replace ? text : known.text + text })
}

function withTool(parts: Part[], { type: _type, ...frame }: ToolFrame): Part[] {
  const at = parts.findIndex((part) => part.kind === 'tool' && part.toolCallId === frame.toolCallId)
  if (at < 0) return [...parts, { kind: 'tool', ...frame }]
  return parts.with(at, { ...(parts[at] as ToolPart), ...frame, input: frame.input ?? (parts[at] as ToolPart).input })
}
