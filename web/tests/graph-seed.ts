// A graph as an operations team keeps it: services, incidents, people and vendors, and reports that an agent reads.
import { rehearsal, trigger, untilStatus, writeScripts } from './seed'
import type { Server } from './server'

const SCRIPTS = {
  correlator: `
rules:
  - when: { step: 1 }
    answer:
      text: The incident belongs to the payment gateway, and its cause is known now.
      calls:
        - tool: entities_update
          input: { id: "Incident/inc-2041", properties: { cause: "A certificate of the gateway expired.", severity: high } }
  - when: {}
    answer: { text: The cause is noted at the incident. }
`,
  reader: `
rules:
  - when: { turn: 1, input: '"chunks":' }
    answer:
      text: I read the report.
      calls: [{ tool: documents_chunks, input: { id: "{{context.document.id}}" } }]
  - when: { turn: 2, tool_result: documents_chunks, contains: Rollback }
    answer:
      text: One incident, who led it, and the vendor that caused it.
      calls:
        - tool: entities_create
          input:
            merge: true
            source: { chunkId: "{{result.chunks.0.id}}" }
            objects:
              - { ref: incident, type: Incident, key: inc-2077, properties: { title: Search returned stale results, severity: medium, summary: The index fell four hours behind after a deployment. } }
              - { ref: lead, type: Person, key: mira-okafor, properties: { name: Mira Okafor } }
            relationships: [{ type: led_by, fromRef: incident, toRef: lead }]
        - tool: entities_create
          input:
            merge: true
            source: { chunkId: "{{result.chunks.1.id}}" }
            objects:
              - { type: Vendor, key: northwind-hosting, properties: { name: Northwind Hosting } }
              - { type: Decision, key: staged-rollouts, properties: { title: Roll out index changes in stages, summary: Ten percent of the replicas first and the rest after an hour. } }
  - when: {}
    answer: { text: What the report says is in the graph. }
`,
}

const PACK = {
  name: 'operations',
  version: '1.0.0',
  objectTypeSchemas: {
    Incident: {
      type: 'object',
      properties: {
        title: { type: 'string' },
        severity: { type: 'string', enum: ['low', 'medium', 'high'] },
        summary: { type: 'string', description: 'What people noticed.' },
        minutes: { type: 'integer', description: 'How long it lasted.' },
        systems: { type: 'array', items: { type: 'string' } },
      },
      required: ['title', 'severity'],
    },
  },
  relationshipTypeSchemas: { affects: { from: 'Incident', to: 'Service' } },
}

const SERVICES: [string, string, string][] = [
  ['payment-gateway', 'Payment gateway', 'Takes card payments and talks to the acquirers.'],
  ['search', 'Search', 'Finds products by words and by meaning.'],
  ['order-service', 'Order service', 'Keeps orders from the basket to the delivery.'],
  ['notification-hub', 'Notification hub', 'Sends mails, texts and push messages.'],
  ['identity', 'Identity', 'Logs people in and issues tokens.'],
  ['warehouse-sync', 'Warehouse sync', 'Reads stock levels from the warehouses every minute.'],
]
const PEOPLE: [string, string, string][] = [
  ['mira-okafor', 'Mira Okafor', 'Incident lead'],
  ['jonas-berg', 'Jonas Berg', 'Engineer of the payment team'],
  ['lucia-ferrari', 'Lucía Ferrari', 'Head of platform'],
  ['tomasz-nowak', 'Tomasz Nowak', 'Database engineer'],
]
const INCIDENTS: [string, string, string, string, string][] = [
  ['inc-2041', 'Card payments failed for 23 minutes', 'medium', 'Customers saw an error page after they entered their card.', 'payment-gateway'],
  ['inc-2043', 'Orders were confirmed twice', 'low', 'A retry sent the confirmation mail again.', 'notification-hub'],
  ['inc-2052', 'Logins were slow after midnight', 'medium', 'The token database ran out of connections.', 'identity'],
  ['inc-2060', 'Stock levels were a day old', 'high', 'The sync with two warehouses stopped without an alert.', 'warehouse-sync'],
]

export const REPORT = `# Stale search results

On Tuesday afternoon the search returned products that were sold out. Mira Okafor led the incident from 14:05 on. ${'The index of the search had fallen behind, and nobody was told because the alert counted documents and not their age. '.repeat(14)}

# Rollback and follow-up

Rollback of the deployment took eleven minutes. Northwind Hosting had moved two replicas to slower disks the night before. ${'The team decided to roll out changes of the index in stages, with ten percent of the replicas first. '.repeat(14)}
`

export async function seedGraph(server: Server) {
  writeScripts(server, SCRIPTS)
  const pack = await server.api<{ id: string }>('POST', '/api/template-packs', PACK)
  await server.api('POST', `/api/template-packs/${pack.id}/assign`)
  const objects = [
    ...SERVICES.map(([key, name, description]) => ({ type: 'Service', key, labels: ['production'], properties: { name, description, tier: key.length % 3 } })),
    ...PEOPLE.map(([key, name, role]) => ({ type: 'Person', key, properties: { name, role } })),
    { type: 'Vendor', key: 'aurelia-certificates', properties: { name: 'Aurelia Certificates', description: 'Issues the certificates of all public services.', website: 'https://aurelia.example' } },
    ...INCIDENTS.map(([key, title, severity, summary]) => ({ type: 'Incident', key, status: 'closed', properties: { title, severity, summary, systems: ['web', 'mobile'] } })),
  ]
  await server.api('POST', '/api/graph/objects/bulk', { objects, atomic: true })
  const relationships = [
    ...INCIDENTS.map(([key, , , , service]) => ({ type: 'affects', fromId: `Incident/${key}`, toId: `Service/${service}` })),
    { type: 'led_by', fromId: 'Incident/inc-2041', toId: 'Person/mira-okafor' },
    { type: 'led_by', fromId: 'Incident/inc-2060', toId: 'Person/lucia-ferrari' },
    { type: 'owns', fromId: 'Person/jonas-berg', toId: 'Service/payment-gateway', properties: { since: 2023 } },
    { type: 'owns', fromId: 'Person/tomasz-nowak', toId: 'Service/identity' },
    { type: 'depends_on', fromId: 'Service/order-service', toId: 'Service/payment-gateway' },
    { type: 'depends_on', fromId: 'Service/order-service', toId: 'Service/warehouse-sync' },
    { type: 'depends_on', fromId: 'Service/payment-gateway', toId: 'Service/identity' },
    { type: 'supplies', fromId: 'Vendor/aurelia-certificates', toId: 'Service/payment-gateway', weight: 0.8 },
  ]
  await server.api('POST', '/api/graph/relationships/bulk', { relationships, atomic: true })
  await server.api('POST', '/api/admin/agents', { name: 'incident-correlator', description: 'Finds the causes of incidents.', tools: ['entities_*'], model: rehearsal('correlator') })
  await server.api('POST', '/api/admin/agents', { name: 'report-reader', description: 'Reads reports of incidents.', tools: ['entities_*', 'documents_chunks'], model: rehearsal('reader'), trigger: 'on_document_ingested' })
  const before = new Date().toISOString()
  await new Promise((resolve) => setTimeout(resolve, 20))
  const run = await trigger(server, 'incident-correlator', 'Find the cause of INC-2041')
  await untilStatus(server, run, 'completed')
  const incident = await server.api<{ id: string; version: number }>('GET', '/api/graph/objects/Incident%2Finc-2041')
  return { run, incident: incident.id, before }
}
