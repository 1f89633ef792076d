// One day of a purchasing department for the pictures of docs/web.md: vendors, contracts and invoices, agents that
// audit, pay and ask, a workflow, and a conversation about all of it.
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import { say } from './seed-chat'
import { ask, seedDesk, stuckDiscussion, untilItem } from './seed-inbox'
import { audit, seedWork } from './seed-work'
import type { Server } from './server'
import { prepareWorkflows, untilWorkflow, walkthrough } from './workflow-seed'

const SCRIPTS = {
  assistant: `
rules:
  - when: { turn: 1 }
    answer:
      text: I look at the contract and the findings about it.
      calls:
        - { tool: search_hybrid, input: { query: "Northwind fuel surcharge", limit: 4 } }
        - { tool: graph_neighbors, input: { id: "Contract/northwind-2026" } }
  - when: { contains: "Who should talk to them" }
    answer:
      text: |
        **Marta Keller** owns the contract with Northwind Logistics, so she should talk to them. The claim can be made until **31 December**.
  - when: {}
    answer:
      text: |
        Yes. Northwind Logistics charged **EUR 18,240** more than the framework contract 2026 allows:

        - The fuel surcharge is capped at 6 % of the freight.
        - NW-2026-03 has 9.1 %, NW-2026-04 has 8.8 % and NW-2026-07 has 7.9 %.

        The finding *Fuel surcharge above the agreed cap* has the evidence, and the contract is marked for renegotiation.
`,
  stubborn: `
rules:
  - when: {}
    answer: { calls: [{ tool: entities_get, input: { id: "Invoice/hf-2024-11" } }] }
`,
}

const OBJECTS: [type: string, key: string, properties: object][] = [
  ['Person', 'marta-keller', { name: 'Marta Keller', role: 'Head of purchasing' }],
  ['Person', 'samir-haddad', { name: 'Samir Haddad', role: 'Controller' }],
  ['Vendor', 'baltic-cargo', { name: 'Baltic Cargo OÜ', country: 'EE', rating: 'A' }],
  ['Contract', 'baltic-2027', { title: 'Baltic Cargo, draft 2027', annualValueEur: 120000 }],
  ['Invoice', 'nw-2026-07', { number: 'NW-2026-07', amountEur: 31450, fuelSurcharge: 0.079 }],
  ['Depot', 'hamburg', { name: 'Depot Hamburg', closes: '2027-03-31' }],
  ['Depot', 'leipzig', { name: 'Depot Leipzig', closes: '2027-04-30' }],
  ['Depot', 'oslo', { name: 'Depot Oslo' }],
]
const RELATIONSHIPS: [from: string, type: string, to: string][] = [
  ['Vendor/northwind', 'party_to', 'Contract/northwind-2026'],
  ['Vendor/baltic-cargo', 'party_to', 'Contract/baltic-2027'],
  ['Person/marta-keller', 'owns', 'Contract/northwind-2026'],
  ['Person/marta-keller', 'owns', 'Contract/baltic-2027'],
  ['Person/samir-haddad', 'checks', 'Invoice/nw-2026-03'],
  ['Invoice/nw-2026-03', 'billed_under', 'Contract/northwind-2026'],
  ['Invoice/nw-2026-04', 'billed_under', 'Contract/northwind-2026'],
  ['Invoice/nw-2026-07', 'billed_under', 'Contract/northwind-2026'],
  ['Vendor/northwind', 'operates', 'Depot/hamburg'],
  ['Vendor/northwind', 'operates', 'Depot/leipzig'],
  ['Vendor/northwind', 'operates', 'Depot/oslo'],
]

export async function seedDepartment(server: Server) {
  const api = server.api.bind(server)
  await seedDesk(server)
  await seedWork(server)
  writeScripts(server, SCRIPTS)
  await api('POST', '/api/graph/objects/bulk', { objects: OBJECTS.map(([type, key, properties]) => ({ type, key, properties })), atomic: true })
  await api('POST', '/api/graph/relationships/bulk', { relationships: RELATIONSHIPS.map(([fromId, type, toId]) => ({ type, fromId, toId })), atomic: true })
  const assistant = await api<{ id: string }>('POST', '/api/admin/agents', { name: 'purchasing-assistant', description: 'Answers questions about vendors, contracts and invoices.', tools: ['search_hybrid', 'graph_neighbors'], model: rehearsal('assistant') })
  await api('POST', '/api/admin/agents', { name: 'invoice-importer', description: 'Imports invoices of vendors.', tools: ['entities_get'], model: rehearsal('stubborn') })
  await api('PUT', '/api/coordination/budgets', { tokens: 200_000 })
  await api('PUT', '/api/coordination/budgets', { agent: 'contract-auditor', tokens: 25_000 })

  const run = await audit(server)
  // The products of the walkthrough bring types of their own, also for findings.
  await prepareWorkflows(server)
  const workflow = await walkthrough(server)
  await untilWorkflow(server, workflow, 'completed')
  for (let count = 0; count < 2; count++) await untilStatus(server, await trigger(server, 'invoice-importer', 'Import the invoices of Harbour Freight'), 'failed')
  for (const input of ['Rate the delivery risk of Baltic Cargo', 'Rate the delivery risk of Harbour Freight']) await untilStatus(server, await trigger(server, 'risk-analyst', input), 'completed')
  const talk = await say(server, { message: 'Did Northwind Logistics charge more than we agreed?', agentDefinitionId: assistant.id })
  await say(server, { message: 'Who should talk to them, and until when?', conversationId: talk })
  for (const message of ['Which contracts end next year?', 'Which vendors had no order since 2024?', 'Summarise what we know about Baltic Cargo']) await say(server, { message, agentDefinitionId: assistant.id })
  await stuckDiscussion(server)
  await untilItem(server, (item) => item.kind === 'discussion')
  await ask(server, 'vendor-onboarding', 'Prepare the payment terms of Baltic Cargo')
  await ask(server, 'vendor-cleanup', 'Remove vendors without orders')
  await ask(server, 'payments-clerk', 'Release the payment of NW-2026-04')
  for (const input of ['Watch the freight rates from Hamburg to Oslo', 'Watch the freight rates from Tallinn to Leipzig']) await trigger(server, 'rate-watcher', input)
  return { workflow, run, talk }
}
