// What an event of the project makes stale: the table from event types to query keys.
import type { QueryClient, QueryKey } from '@tanstack/react-query'
import { keys } from './keys'
import type { ProjectEvent } from './types'

/** What every change of a setting makes stale. */
const SETTINGS = [keys.audit, keys.diagnostics]

/** Returns the beginnings of the keys of all queries whose answers an event may change. */
export function staleKeys(event: ProjectEvent): QueryKey[] {
  switch (event.type) {
    case 'run':
      return [[...keys.runs, 'recent'], keys.extraction, keys.run(event.runId), keys.runStats, keys.budgets, keys.triggers, keys.firings, ...(event.status === 'waiting' ? [keys.conversations] : []), ...(event.workflowId ? [keys.workflows, keys.workflow(event.workflowId)] : [])]
    case 'workflow':
      return [keys.workflows, keys.workflow(event.workflowId), keys.tasks, keys.triggers, keys.firings]
    case 'approval':
      // Conversations say whether they wait. The event does not name the one that asked, so whichever is open is read again.
      return [keys.inbox, keys.inboxItem(event.approvalId), keys.discussions, keys.conversations, keys.openConversations, ...(event.runId ? [keys.run(event.runId)] : [])]
    case 'graph':
      return [keys.objects, keys.object(event.change.entityId), keys.documents, keys.document(event.change.entityId), keys.tasks]
    case 'conversation':
      return [keys.conversations, keys.conversation(event.conversationId)]
    case 'agent':
      // The page of an agent may have its name as the address.
      return [keys.agents, keys.agent(event.agentId), keys.agent(event.name), keys.triggers, ...SETTINGS]
    case 'mcp_server':
      return [keys.mcpServers, keys.mcpServer(event.name), keys.tools, ...SETTINGS]
    case 'product':
      return [keys.products, keys.product(event.name), keys.agents, keys.mcpServers, keys.tools, keys.triggers, ['packs'], ...SETTINGS]
    case 'token':
      return [keys.tokens, ...SETTINGS]
    case 'secret':
      return [keys.secrets, keys.mcpServers, ...SETTINGS]
    case 'budget':
      return [keys.budgets, ...SETTINGS]
    case 'trigger':
      return [keys.triggers, ...SETTINGS]
    default:
      return []
  }
}

type Client = Pick<QueryClient, 'invalidateQueries' | 'isFetching'>

/** The shortest time between two rounds of reading again. */
const PAUSE = 250

/**
 * Collects what events make stale and invalidates it together, so that a thousand events cost as much as one. A query
 * that is being read is left until its answer is there: invalidating it at once would cancel it, and a steady stream
 * of events would then never let an answer through.
 */
export class Invalidator {
  #pending = new Map<string, QueryKey>()
  #isScheduled = false
  readonly #client: Client
  readonly #schedule: (run: () => void) => void

  constructor(client: Client, schedule: (run: () => void) => void = nextFrame()) {
    this.#client = client
    this.#schedule = schedule
  }

  add(queryKeys: readonly QueryKey[]) {
    for (const queryKey of queryKeys) this.#pending.set(JSON.stringify(queryKey), queryKey)
    this.#plan()
  }

  #plan() {
    if (this.#isScheduled || this.#pending.size === 0) return
    this.#isScheduled = true
    this.#schedule(() => this.#flush())
  }

  #flush() {
    this.#isScheduled = false
    for (const [name, queryKey] of this.#pending) {
      if (this.#client.isFetching({ queryKey }) > 0) continue
      this.#pending.delete(name)
      void this.#client.invalidateQueries({ queryKey })
    }
    this.#plan()
  }
}

/** Runs in the next animation frame, which a hidden page does not get, and at most once in a while. */
function nextFrame() {
  let last = 0
  return (run: () => void) => {
    const wait = last + PAUSE - performance.now()
    const start = () =>
      requestAnimationFrame(() => {
        last = performance.now()
        run()
      })
    if (wait > 0) setTimeout(start, wait)
    else start()
  }
}
