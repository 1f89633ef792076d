// The events of the project, for all tabs of this browser.
import { useEffect, useSyncExternalStore } from 'react'
import { type ConnectionState, holdStream } from './connection'
import { currentProject } from './client'
import { Invalidator, staleKeys } from './invalidations'
import { type Channel, joinTabs, type Locks } from './leader'
import { queryClient } from './query-client'
import type { ProjectEvent } from './types'

/** Without HTTPS, on another host, there are no locks: each tab then has a stream of its own. */
const ALONE = { request: (_name: string, _options: unknown, work: () => Promise<void>) => work() } as unknown as Locks

let state: ConnectionState = 'connecting'
const stateListeners = new Set<() => void>()
const eventListeners = new Set<(event: ProjectEvent) => void>()

function setState(next: ConnectionState) {
  if (next === state) return
  state = next
  stateListeners.forEach((listener) => listener())
}

/** Whether events arrive: shown in the top bar. */
export function useConnectionState(): ConnectionState {
  return useSyncExternalStore(
    (listener) => {
      stateListeners.add(listener)
      return () => stateListeners.delete(listener)
    },
    () => state,
  )
}

/** Calls `handler` for every event, for pages that do more than read again. Pass a stable function. */
export function useProjectEvents(handler: (event: ProjectEvent) => void) {
  useEffect(() => {
    eventListeners.add(handler)
    return () => void eventListeners.delete(handler)
  }, [handler])
}

/** Starts to take part in the stream of a project, for one login. Returns how to stop. */
export function startEvents(tokenId: string): () => void {
  const controller = new AbortController()
  const invalidator = new Invalidator(queryClient)
  const name = `emergent-events-${tokenId}-${currentProject() ?? ''}`
  let isFirst = true

  void joinTabs<ProjectEvent>({
    name,
    locks: navigator.locks ?? ALONE,
    channel: new BroadcastChannel(name) as Channel<ProjectEvent>,
    signal: controller.signal,
    lead: (lastId, share, tell, signal) =>
      holdStream({
        path: () => '/api/events',
        lastId,
        signal,
        onState: tell,
        onFrame: (frame) => share(JSON.parse(frame.data) as ProjectEvent, frame.id),
      }),
    onState: (next) => setState(next as ConnectionState),
    onEvent: (event) => {
      if (event.type === 'ready') {
        // Some events are gone, or came between the first answers and the stream: read everything again.
        if (!event.complete || isFirst) invalidator.add([[]])
        isFirst = false
        return
      }
      invalidator.add(staleKeys(event))
      eventListeners.forEach((listener) => listener(event))
    },
  })
  return () => controller.abort()
}
