// One tab of a browser holds the event stream and shares it with the others: a browser has six connections for a
// server, so a seventh tab with its own stream would hang. Whoever holds the lock leads; the browser gives the lock
// to the next tab when the leader closes or crashes.

/** What tabs tell each other. */
export type TabMessage<T> =
  | { kind: 'event'; event: T; id: string | undefined }
  | { kind: 'state'; state: string; lastId: string | undefined }
  | { kind: 'hello' }

export type Locks = Pick<LockManager, 'request'>
export type Channel<T> = Pick<BroadcastChannel, 'postMessage' | 'close'> & {
  onmessage: ((event: MessageEvent<TabMessage<T>>) => void) | null
}

export type LeaderOptions<T> = {
  name: string
  locks: Locks
  channel: Channel<T>
  /** Holds the stream until the signal aborts; begins behind `lastId`. */
  lead: (lastId: string | undefined, share: (event: T, id: string | undefined) => void, tell: (state: string) => void, signal: AbortSignal) => Promise<void>
  onEvent: (event: T) => void
  onState: (state: string) => void
  signal: AbortSignal
}

/** Takes part in the group of tabs: leads when its turn comes, and follows until then. */
export function joinTabs<T>(options: LeaderOptions<T>): Promise<void> {
  const { channel, signal } = options
  let lastId: string | undefined
  let state = 'connecting'
  let leads = false

  channel.onmessage = ({ data }) => {
    if (data.kind === 'hello') {
      if (leads) channel.postMessage({ kind: 'state', state, lastId })
      return
    }
    if (leads) return
    if (data.kind === 'state') {
      lastId = data.lastId ?? lastId
      options.onState(data.state)
    } else {
      lastId = data.id ?? lastId
      options.onEvent(data.event)
    }
  }
  signal.addEventListener('abort', () => channel.close())
  channel.postMessage({ kind: 'hello' })

  const share = (event: T, id: string | undefined) => {
    lastId = id ?? lastId
    if (signal.aborted) return
    channel.postMessage({ kind: 'event', event, id })
    options.onEvent(event)
  }
  const tell = (next: string) => {
    state = next
    if (signal.aborted) return
    channel.postMessage({ kind: 'state', state, lastId })
    options.onState(next)
  }
  return options.locks
    .request(options.name, { signal }, async () => {
      leads = true
      // A new leader continues behind the last event that the former one shared: nothing is missed.
      await options.lead(lastId, share, tell, signal)
    })
    .then(
      () => undefined,
      // A tab that closes while it waits for its turn is no failure.
      () => undefined,
    )
}
