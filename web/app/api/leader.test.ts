import { describe, expect, it } from 'vitest'
import { type Channel, joinTabs, type Locks, type TabMessage } from './leader'

/** Locks and channels of one browser, without the browser. */
function browser() {
  const waiting: { run: () => void }[] = []
  let isHeld = false
  const next = () => {
    isHeld = false
    waiting.shift()?.run()
  }
  const locks = {
    request: (_name: string, options: { signal: AbortSignal }, work: () => Promise<void>) =>
      new Promise<void>((resolve, reject) => {
        const entry = { run: () => ((isHeld = true), void work().finally(() => (next(), resolve()))) }
        if (!isHeld) entry.run()
        else {
          waiting.push(entry)
          options.signal.addEventListener('abort', () => (waiting.splice(waiting.indexOf(entry), 1), reject(new Error('aborted'))))
        }
      }),
  } as unknown as Locks
  const open = new Set<Channel<string>>()
  const channel = (): Channel<string> => {
    const own: Channel<string> = {
      onmessage: null,
      postMessage: (data: TabMessage<string>) => open.forEach((other) => other !== own && other.onmessage?.({ data } as MessageEvent<TabMessage<string>>)),
      close: () => void open.delete(own),
    }
    open.add(own)
    return own
  }
  return { locks, channel }
}

function tab(shared: ReturnType<typeof browser>) {
  const controller = new AbortController()
  const seen: string[] = []
  const states: string[] = []
  const led: { from: string | undefined; share: (event: string, id: string) => void; tell: (state: string) => void }[] = []
  void joinTabs<string>({
    name: 'test',
    locks: shared.locks,
    channel: shared.channel(),
    signal: controller.signal,
    onEvent: (event) => seen.push(event),
    onState: (state) => states.push(state),
    lead: (from, share, tell, signal) => {
      led.push({ from, share, tell })
      return new Promise((resolve) => signal.addEventListener('abort', () => resolve()))
    },
  })
  return { controller, seen, states, led }
}

const settled = () => new Promise((resolve) => setTimeout(resolve))

describe('tabs of one browser', () => {
  it('open one stream, and all see its events', () => {
    const shared = browser()
    const [first, second] = [tab(shared), tab(shared)]
    expect([first.led.length, second.led.length]).toEqual([1, 0])
    first.led[0]!.tell('live')
    first.led[0]!.share('a', '1')
    expect([first.seen, second.seen, second.states]).toEqual([['a'], ['a'], ['connecting', 'live']])
  })

  it('hand over behind the last event when the leader closes', async () => {
    const shared = browser()
    const [first, second] = [tab(shared), tab(shared)]
    first.led[0]!.share('a', '1')
    first.led[0]!.share('b', '2')
    first.controller.abort()
    await settled()
    expect(second.led.map(({ from }) => from)).toEqual(['2'])
    second.led[0]!.share('c', '3')
    expect([first.seen, second.seen]).toEqual([['a', 'b'], ['a', 'b', 'c']])
  })

  it('tell a new tab the state and the position', async () => {
    const shared = browser()
    const first = tab(shared)
    first.led[0]!.share('a', '1')
    first.led[0]!.tell('live')
    const late = tab(shared)
    expect(late.states).toEqual(['live'])
    first.controller.abort()
    await settled()
    expect(late.led.map(({ from }) => from)).toEqual(['1'])
  })

  it('do not lead after they closed while they waited', async () => {
    const shared = browser()
    const [first, second, third] = [tab(shared), tab(shared), tab(shared)]
    second.controller.abort()
    first.controller.abort()
    await settled()
    expect([second.led.length, third.led.length]).toEqual([0, 1])
  })
})
