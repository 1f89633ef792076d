// The detail stream of one run, workflow or conversation. It is open only while its page is visible: a browser has six
// connections for a server, and a hidden page needs none of them.
import { useEffect, useRef, useState } from 'react'
import { type ConnectionState, holdStream } from './connection'
import type { SseFrame } from './sse'

export type StreamOptions = {
  /** The path of the stream; `undefined` opens none. */
  path: string | undefined
  onFrame: (frame: SseFrame) => void
  /** Whether this frame is the last one of the stream. */
  isLast?: (frame: SseFrame) => boolean
}

/** Follows a stream and returns its state. After a pause it continues behind the last frame. */
export function useStream({ path, onFrame, isLast }: StreamOptions): ConnectionState {
  const [state, setState] = useState<ConnectionState>('connecting')
  const handlers = useRef({ onFrame, isLast })
  useEffect(() => {
    handlers.current = { onFrame, isLast }
  })
  useEffect(() => {
    if (!path) return
    let lastId: string | undefined
    let over = false
    let controller: AbortController | undefined
    const update = () => {
      const wanted = document.visibilityState === 'visible' && !over
      if (wanted && !controller) {
        const own = new AbortController()
        controller = own
        void holdStream({
          path: () => path,
          lastId,
          signal: own.signal,
          isOver: () => over,
          onState: (next) => !own.signal.aborted && setState(next),
          onFrame: (frame) => {
            lastId = frame.id ?? lastId
            over ||= handlers.current.isLast?.(frame) ?? false
            handlers.current.onFrame(frame)
          },
        })
      } else if (!wanted && controller) {
        controller.abort()
        controller = undefined
      }
    }
    update()
    document.addEventListener('visibilitychange', update)
    return () => {
      document.removeEventListener('visibilitychange', update)
      controller?.abort()
    }
  }, [path])
  return state
}
