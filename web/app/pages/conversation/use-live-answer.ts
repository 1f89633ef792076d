import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import type { ChatFrame } from '~/api/chat'
import { keys } from '~/api/keys'
import type { SseFrame } from '~/api/sse'
import { useStream } from '~/api/stream'
import type { Conversation } from '~/pages/chat/chat-queries'
import { parseJson } from '~/util/json'
import { type LiveAnswer, withFrame } from './live-answer'

const parse = (frame: SseFrame) => parseJson(frame.data) as ChatFrame
const isDone = (frame: SseFrame) => parse(frame).type === 'done'

/**
 * The answer that is being written, by whichever tab its question was sent. The stream is open while the conversation
 * is being answered, and goes on behind the last frame after a lost connection.
 */
export function useLiveAnswer(conversation: Conversation | undefined): LiveAnswer | undefined {
  const client = useQueryClient()
  const [live, setLive] = useState<LiveAnswer>()
  const pending = useRef<ChatFrame[]>([])
  const scheduled = useRef(0)
  useEffect(() => () => cancelAnimationFrame(scheduled.current), [])
  const id = conversation?.id
  const onFrame = useCallback(
    (received: SseFrame) => {
      const frame = parse(received)
      pending.current.push(frame)
      // Pieces that arrive within one frame of the screen are shown together.
      scheduled.current ||= requestAnimationFrame(() => {
        scheduled.current = 0
        const frames = pending.current.splice(0)
        setLive((known) => frames.reduce<LiveAnswer | undefined>(withFrame, known))
      })
      const isNews = frame.type === 'done' || frame.type === 'meta' || (frame.type === 'mcp_tool' && frame.approvalId)
      if (id && isNews) void client.invalidateQueries({ queryKey: keys.conversation(id) })
    },
    [client, id],
  )
  const isAnswering = conversation?.status === 'answering'
  // The part behind the # is not sent; another run makes another stream of it.
  useStream({ path: id && isAnswering ? `/api/chat/conversations/${id}/stream#${conversation.activeRunId ?? ''}` : undefined, onFrame, isLast: isDone })
  return live
}
