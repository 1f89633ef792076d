// Sends a message of a chat. The answer is not read here: whoever shows the conversation follows its stream, which is
// the same for this tab, for another one, and after a lost connection.
import { bodyText, parseJson } from '~/util/json'
import { commonHeaders, reportUnauthorized } from './client'
import { ApiError } from './errors'
import { SseParser } from './sse'
import type { Schemas } from './types'

export type ChatFrame = Schemas['ChatFrame']
export type ChatMeta = Extract<ChatFrame, { type: 'meta' }>

/** Stores a message and starts its answer. Returns where it stands as soon as the server says so. */
export async function sendMessage(body: Schemas['SendMessage'], idempotencyKey: string): Promise<ChatMeta> {
  const controller = new AbortController()
  let response: Response
  try {
    response = await fetch('/api/chat/stream', {
      method: 'POST',
      credentials: 'same-origin',
      headers: { ...commonHeaders(), 'Content-Type': 'application/json', Accept: 'text/event-stream', 'Idempotency-Key': idempotencyKey },
      body: bodyText(body),
      signal: controller.signal,
    })
  } catch {
    throw ApiError.unreachable()
  }
  if (response.status === 401) reportUnauthorized()
  if (!response.ok || !response.body) throw ApiError.from(response, await response.json().catch(() => undefined))
  const parser = new SseParser()
  const reader = response.body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) throw ApiError.unreachable()
      for (const frame of parser.push(value)) {
        const told = parseJson(frame.data) as ChatFrame
        if (told.type === 'meta') return told
      }
    }
  } finally {
    controller.abort()
  }
}
