// Requests of every kind: calls to approve, questions, a discussion without an outcome and a workflow that is stuck.
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import type { Server } from './server'

const DESK = `
rules:
  - when: { agent: vendor-cleanup, step: 1 }
    answer:
      text: Harbour Freight has had no order since February 2024. I remove the vendor.
      calls: [{ tool: entities_delete, input: { id: "Vendor/harbour-freight" } }]
  - when: { agent: payments-clerk, step: 1 }
    answer:
      text: The invoice matches the delivery. I release the payment.
      calls: [{ tool: entities_update, input: { id: "Invoice/nw-2026-04", status: released, properties: { paidEur: 34870, releasedBy: payments-clerk } } }]
  - when: { agent: vendor-onboarding, step: 1, input: "terms" }
    answer:
      calls: [{ tool: ask_user, input: { question: "Which payment terms shall we offer to Baltic Cargo?", options: ["30 days net", "60 days net", "14 days with 2 % discount"] } }]
  - when: { agent: vendor-onboarding, step: 1, input: "contact" }
    answer:
      calls: [{ tool: ask_user, input: { question: "Who is the contact at Baltic Cargo, and may we write to them directly?", responseSchema: { type: object, required: [name, limitEur, channel], properties: { name: { type: string, title: Name }, limitEur: { type: integer, title: "Credit limit in EUR", minimum: 1000 }, channel: { type: string, title: Channel, enum: [email, telephone] }, mayWrite: { type: boolean, title: "We may write to them directly" } } } } }]
  - when: { agent: vendor-onboarding, step: 1 }
    answer:
      calls: [{ tool: ask_user, input: { question: "What should the welcome letter to Baltic Cargo say about delivery times?" } }]
  - when: { agent: pricing-analyst }
    answer: { text: "Proposal: index the fuel surcharge to the diesel price, reviewed each quarter." }
  - when: { agent: legal-reviewer }
    answer: { text: "SUGGEST_CHANGES: without a cap we carry the whole risk. The cap of 6 % must stay in the contract." }
  - when: {}
    answer: { text: "That is done." }
`
const BROKEN = `
rules:
  - when: {}
    fault: auth
`

export const RUNS = ['vendor-cleanup', 'payments-clerk'] as const

/** The agents and objects behind the requests. */
export async function seedDesk(server: Server) {
  writeScripts(server, { desk: DESK, broken: BROKEN })
  for (const [type, key, properties, status] of [
    ['Vendor', 'harbour-freight', { name: 'Harbour Freight Ltd', country: 'GB', rating: 'C', lastOrder: '2024-02-11' }, 'inactive'],
    ['Invoice', 'nw-2026-04', { number: 'NW-2026-04', amountEur: 34870, dueOn: '2026-11-30' }, 'checked'],
  ] as const)
    await server.api('PUT', '/api/graph/objects/upsert', { type, key, properties, status })
  const model = rehearsal('desk')
  const agents = [
    { name: 'vendor-cleanup', description: 'Removes vendors that nobody orders from.', tools: ['entities_*'], model, approvals: [{ tools: ['entities_delete'], action: 'ask' }] },
    { name: 'payments-clerk', description: 'Releases payments of checked invoices.', tools: ['entities_*'], model, approvals: [{ tools: ['entities_update'], action: 'ask', expiresIn: 7200 }] },
    { name: 'vendor-onboarding', description: 'Prepares the papers of new vendors.', tools: ['ask_user'], model },
    { name: 'pricing-analyst', description: 'Proposes prices.', model },
    { name: 'legal-reviewer', description: 'Reviews contracts.', model },
    { name: 'bank-connector', description: 'Talks to the bank.', model: rehearsal('broken') },
  ]
  for (const agent of agents) await server.api('POST', '/api/admin/agents', agent)
}

export type Item = { id: string; kind: string; status: string; title: string; runId?: string; decision?: { decision: string; reason?: string; tokenId?: string; answer?: unknown; editedInput?: unknown } }

/** Starts an agent that asks, and returns its request. */
export async function ask(server: Server, agent: string, input: string): Promise<Item> {
  const run = await trigger(server, agent, input)
  await untilStatus(server, run, 'waiting')
  const [item] = await server.api<Item[]>('GET', `/api/approvals?runId=${run}&status=pending`)
  return item!
}

/** Waits for a pending item of a kind. */
export async function untilItem(server: Server, matches: (item: Item) => boolean): Promise<Item> {
  const end = Date.now() + 60_000
  for (;;) {
    const item = (await server.api<Item[]>('GET', '/api/approvals?status=pending&limit=100')).find(matches)
    if (item) return item
    if (Date.now() > end) throw new Error('there is no such item')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

export const stuckWorkflow = (server: Server) =>
  server.api<{ workflowId: string }>('POST', '/api/coordination/dispatch', { tasks: [{ key: 'pay', title: 'Pay the invoices of October', assignedAgent: 'bank-connector', maxRetries: 0 }, { key: 'report', title: 'Report what was paid', assignedAgent: 'pricing-analyst', blockedBy: ['pay'] }] })

export const stuckDiscussion = (server: Server) =>
  server.api<{ workflowId: string }>('POST', '/api/coordination/dispatch', { tasks: [{ key: 'surcharge', title: 'How do we agree on the fuel surcharge for 2027?', assignedAgent: 'pricing-analyst', requiresCollaboration: true, collaborators: ['legal-reviewer'] }] })
