import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { keys } from '~/api/keys'
import type { SseFrame } from '~/api/sse'
import { useStream } from '~/api/stream'
import { parseJson } from '~/util/json'
import type { WorkflowEvent } from './workflow-query'

const REREAD_PAUSE = 400
/** Of a busy workflow, an event in every frame would leave no time to move the picture. */
const SHOW_PAUSE = 150

const parse = (frame: SseFrame) => parseJson(frame.data) as WorkflowEvent
const isEnd = (frame: SseFrame) => parse(frame).type === 'workflow_ended'

/**
 * Every decision of a workflow in its order, as they happen. The workflow itself is read again after them, at most a
 * few times a second. `isOver` says that the workflow has ended; when it is resumed, the stream goes on where it was.
 */
export function useWorkflowEvents(workflowId: string, isOver: boolean) {
  const client = useQueryClient()
  const [events, setEvents] = useState<WorkflowEvent[]>([])
  const pending = useRef<WorkflowEvent[]>([])
  const showing = useRef<ReturnType<typeof setTimeout>>(undefined)
  const shownAt = useRef(-Infinity)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const last = useRef(0)
  const [after, setAfter] = useState(0)
  const wasOver = useRef(isOver)
  useEffect(() => {
    if (wasOver.current && !isOver) setAfter(last.current)
    wasOver.current = isOver
  }, [isOver])
  useEffect(
    () => () => {
      clearTimeout(showing.current)
      showing.current = undefined
      clearTimeout(timer.current)
      timer.current = undefined
    },
    [],
  )

  const onFrame = useCallback(
    (received: SseFrame) => {
      const event = parse(received)
      if (event.seq <= last.current) return
      last.current = event.seq
      pending.current.push(event)
      // What arrives together is shown together.
      showing.current ??= setTimeout(() => {
        showing.current = undefined
        shownAt.current = performance.now()
        const added = pending.current.splice(0)
        setEvents((known) => [...known, ...added])
      }, shownAt.current + SHOW_PAUSE - performance.now())
      timer.current ??= setTimeout(() => {
        timer.current = undefined
        void client.invalidateQueries({ queryKey: keys.workflow(workflowId) })
        void client.invalidateQueries({ queryKey: keys.discussions })
        void client.invalidateQueries({ queryKey: keys.tasks })
      }, REREAD_PAUSE)
    },
    [client, workflowId],
  )
  const state = useStream({ path: `/api/coordination/workflows/${encodeURIComponent(workflowId)}/events${after > 0 ? `?after=${after}` : ''}`, onFrame, isLast: isEnd })
  return { events, state }
}
