// Holds one event stream open: reconnects after the last event with a growing pause, until it is stopped.
import { commonHeaders, reportUnauthorized } from './client'
import { type SseFrame, SseParser } from './sse'

export type ConnectionState = 'connecting' | 'live' | 'reconnecting' | 'ended'

export type ConnectionOptions = {
  path: () => string
  lastId?: string | undefined
  onFrame: (frame: SseFrame) => void
  onState?: (state: ConnectionState) => void
  /** Says after a complete stream whether it is over; otherwise it is opened again. */
  isOver?: () => boolean
  signal: AbortSignal
  fetch?: typeof fetch
}

const FIRST_PAUSE = 500
const LONGEST_PAUSE = 15_000

export async function holdStream(options: ConnectionOptions): Promise<void> {
  const { signal } = options
  const request = options.fetch ?? fetch
  let lastId = options.lastId
  let pause = FIRST_PAUSE
  let wasLive = false
  while (!signal.aborted) {
    options.onState?.(wasLive ? 'reconnecting' : 'connecting')
    let named: number | undefined
    try {
      const headers: Record<string, string> = { ...commonHeaders(), Accept: 'text/event-stream' }
      if (lastId !== undefined) headers['Last-Event-ID'] = lastId
      const response = await request(options.path(), { headers, signal, credentials: 'same-origin', cache: 'no-store' })
      if (response.status === 401) {
        reportUnauthorized()
        break
      }
      // Another refusal of this request will not change by repeating it.
      if (response.status >= 400 && response.status < 500 && response.status !== 429) break
      if (response.ok && response.body) {
        wasLive = true
        options.onState?.('live')
        const parser = new SseParser()
        const reader = response.body.getReader()
        for (;;) {
          const { done, value } = await reader.read()
          if (done) break
          for (const frame of parser.push(value)) {
            pause = FIRST_PAUSE
            if (frame.id !== undefined) lastId = frame.id
            options.onFrame(frame)
          }
          named = parser.retry
        }
        if (options.isOver?.()) break
      }
    } catch {
      // A lost connection is answered by the next one.
    }
    if (signal.aborted) break
    options.onState?.('reconnecting')
    await sleep(named ?? pause * (0.75 + Math.random() / 2), signal)
    pause = Math.min(pause * 2, LONGEST_PAUSE)
  }
  options.onState?.('ended')
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, milliseconds)
    function done() {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done)
  })
}
