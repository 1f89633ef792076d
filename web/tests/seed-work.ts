// The work of a purchasing department: agents that audit contracts, pay invoices and ask people.
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import type { Server } from './server'

const AUDIT = `
rules:
  - when: { agent: contract-auditor, step: 1 }
    delay_ms: 250
    answer:
      thought: The contract ends soon. I need its terms before I look at the invoices.
      text: I look up the contract and what is known about the vendor.
      calls:
        - { tool: entities_get, input: { id: "Contract/northwind-2026" } }
        - { tool: search_hybrid, input: { query: "Northwind fuel surcharge", limit: 5 } }
  - when: { agent: contract-auditor, step: 2 }
    delay_ms: 200
    answer:
      text: Two questions can be answered at the same time, so I ask two colleagues.
      calls:
        - tool: spawn_agents
          input:
            tasks:
              - { agent_name: invoice-checker, task: "Compare the invoices of Northwind Logistics with the agreed rates." }
              - { agent_name: risk-analyst, task: "Rate the delivery risk of Northwind Logistics for next year." }
  - when: { agent: contract-auditor, step: 3 }
    delay_ms: 300
    answer:
      text: Three invoices exceed the cap. I record the finding and mark the contract for renegotiation.
      calls:
        - { tool: entities_update, input: { id: "Contract/northwind-2026", status: renegotiate, properties: { risk: high, annualValueEur: 412000, reviewer: null } } }
        - tool: entities_create
          input:
            objects:
              - { ref: finding, type: Finding, key: northwind-fuel-surcharge, properties: { title: "Fuel surcharge above the agreed cap", amountEur: 18240, severity: high } }
            relationships:
              - { type: concerns, fromRef: finding, toId: "Contract/northwind-2026" }
        - { tool: entities_delete, input: { id: "Note/northwind-reminder" } }
        - { tool: entities_get, input: { id: "Contract/northwind-2019" } }
  - when: { agent: contract-auditor }
    delay_ms: 150
    answer: { text: "Northwind Logistics charged EUR 18,240 more than agreed: the fuel surcharge of three invoices is above the cap of 6 %.\\n\\nI marked the contract for renegotiation and recorded the finding with its evidence. The delivery risk for next year is high, because two of four depots close in spring." }
  - when: { agent: invoice-checker, step: 1 }
    delay_ms: 400
    answer: { text: "I list the invoices of this year.", calls: [{ tool: entities_query, input: { type: Invoice } }] }
  - when: { agent: invoice-checker }
    answer: { text: "Three of twelve invoices exceed the surcharge cap, by EUR 18,240 in all." }
  - when: {}
    delay_ms: 900
    answer: { text: "The delivery risk is high: two of four depots close in spring." }
`

const STORY = 'The report begins with the terms of the contract. The cap of the fuel surcharge is six percent of the freight. Twelve invoices were paid this year, and three of them exceed the cap. The vendor explains this with the price of diesel in March. The contract has no clause for such a case, so the cap holds. The department can ask for the difference until the end of December.'

const WRITER = `
rules:
  - when: { step: 1 }
    answer: { text: "I read the finding first.", calls: [{ tool: entities_get, input: { id: "Contract/northwind-2026" } }] }
  - when: {}
    delay_ms: 300
    chunk_delay_ms: 200
    answer: { text: "${STORY}" }
`

const WATCHER = `
rules:
  - when: {}
    delay_ms: 600000
    answer: { text: Done. }
`

export const CONTRACT_AUDITOR = 'contract-auditor'

/** Objects, agents and scripts. No run is started. */
export async function seedWork(server: Server) {
  writeScripts(server, { audit: AUDIT, writer: WRITER, watcher: WATCHER })
  const objects: [string, string, object, string?][] = [
    ['Contract', 'northwind-2026', { title: 'Northwind Logistics, framework contract 2026', annualValueEur: 394000, fuelSurchargeCap: 0.06, reviewer: 'M. Keller' }, 'active'],
    ['Vendor', 'northwind', { name: 'Northwind Logistics GmbH', country: 'DE', rating: 'B' }],
    ['Vendor', 'harbour-freight', { name: 'Harbour Freight Ltd', country: 'GB', rating: 'C', lastOrder: '2024-02-11' }],
    ['Note', 'northwind-reminder', { title: 'Call Northwind about the March invoices' }],
    ['Invoice', 'nw-2026-03', { number: 'NW-2026-03', amountEur: 36120, fuelSurcharge: 0.091 }],
    ['Invoice', 'nw-2026-04', { number: 'NW-2026-04', amountEur: 34870, fuelSurcharge: 0.088 }],
  ]
  for (const [type, key, properties, status] of objects) await server.api('PUT', '/api/graph/objects/upsert', { type, key, properties, ...(status && { status }) })
  const agents = [
    { name: CONTRACT_AUDITOR, description: 'Compares contracts with what was paid.', systemPrompt: 'You audit contracts of the purchasing department. Record every finding in the graph with its evidence.', tools: ['entities_*', 'relationships_*', 'search_hybrid', 'spawn_agents'], model: rehearsal('audit') },
    { name: 'invoice-checker', description: 'Compares invoices with agreed rates.', tools: ['entities_query'], model: rehearsal('audit') },
    { name: 'risk-analyst', description: 'Rates the risk of vendors.', model: rehearsal('audit') },
    { name: 'report-writer', description: 'Writes the report of an audit.', tools: ['entities_get'], model: rehearsal('writer') },
    { name: 'rate-watcher', description: 'Watches the freight rates.', model: rehearsal('watcher') },
  ]
  for (const agent of agents) await server.api('POST', '/api/admin/agents', agent)
}

/** The same audit by a model that is content with less. */
export function writeLenientAudit(server: Server) {
  const lenient = AUDIT.replace('risk: high, annualValueEur', 'risk: medium, annualValueEur')
    .replace('I record the finding and mark the contract for renegotiation.', 'I note it for the next meeting.')
    .replace('        - { tool: entities_delete, input: { id: "Note/northwind-reminder" } }\n', '')
  writeScripts(server, { lenient })
}

/** An audit from its trigger to its end. */
export async function audit(server: Server, more: object = {}): Promise<string> {
  const run = await trigger(server, CONTRACT_AUDITOR, 'Audit the framework contract with Northwind Logistics for 2026.', { maxSteps: 12, maxTotalTokens: 50_000, ...more })
  await untilStatus(server, run, 'completed', 'failed', 'paused')
  return run
}
