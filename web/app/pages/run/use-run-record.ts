import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { SseFrame } from '~/api/sse'
import { useStream } from '~/api/stream'
import { parseJson } from '~/util/json'
import { type RunEvent, RunRecord } from './run-record'

const isLast = (frame: SseFrame) => frame.data.includes('"type":"run_ended"') && (JSON.parse(frame.data) as RunEvent).type === 'run_ended'

/** The path of the events of a run, for `useStream`. */
export const eventsPath = (agentId: string, runId: string) => `/api/admin/agents/${agentId}/runs/${runId}/events`

/**
 * Follows the events of a run. `version` changes at most once for each frame of the screen, however many events came.
 * `isComplete` says that everything which was recorded when the page was opened is there.
 */
export function useRunRecord(run: { id: string; agentId: string } | undefined, options: { keepsValues?: boolean } = {}) {
  const id = run?.id
  const keepsValues = options.keepsValues ?? false
  // oxlint-disable-next-line react/exhaustive-deps
  const record = useMemo(() => new RunRecord({ keepsValues }), [id, keepsValues])
  const [version, setVersion] = useState(0)
  const planned = useRef(false)
  const mounted = useRef(true)
  useEffect(() => {
    mounted.current = true
    return () => {
      mounted.current = false
    }
  }, [])
  const onFrame = useCallback(
    (frame: SseFrame) => {
      record.add(parseJson(frame.data) as RunEvent)
      if (planned.current) return
      planned.current = true
      // The first screen is shown at once; after that the page draws a few times a second while a long record arrives.
      const wait = record.events < 200 ? 0 : 120
      setTimeout(() => {
        planned.current = false
        if (mounted.current) setVersion((known) => known + 1)
      }, wait)
    },
    [record],
  )
  const state = useStream({ path: run ? eventsPath(run.agentId, run.id) : undefined, onFrame, isLast })
  return { record, version, state }
}
