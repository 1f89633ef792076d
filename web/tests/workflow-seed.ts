// Workflows for the pages to show: the walkthrough of `emergent demo`, and small ones that end in every way.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rehearsal, writeScripts } from './seed'
import type { Server } from './server'

const WALKTHROUGH = fileURLToPath(new URL('../../crates/emergent/src/demo/walkthrough.yaml', import.meta.url))

const SCRIPTS = {
  // The writer has no access to its model until somebody else gets the task.
  outage: `
rules:
  - when: { agent: release-writer }
    fault: auth
  - when: {}
    answer: { text: "The notes of version 2.4 name the new importer, the faster search and two fixes." }
`,
  undecided: `
rules:
  - when: { turn: 1 }
    answer: { text: "Weekly digests keep the inbox small; daily ones are read sooner." }
  - when: {}
    answer: { text: "I cannot say which is better." }
`,
  steady: `
rules:
  - when: {}
    answer: { text: "The figures of the quarter are in the report: revenue grew by 8 %, churn fell to 2.1 %." }
`,
  unhurried: `
rules:
  - when: {}
    delay_ms: 6000
    answer: { text: "Done as described; the details are in the report." }
`,
  asleep: `
rules:
  - when: {}
    delay_ms: 600000
    answer: { text: Done. }
`,
}

export const AGENTS = [
  { name: 'release-writer', description: 'Writes release notes and announcements.', systemPrompt: 'You write release notes.', model: rehearsal('steady') },
  { name: 'data-analyst', description: 'Analyses figures and explains what changed.', systemPrompt: 'You analyse figures.', model: rehearsal('steady') },
  { name: 'editor', description: 'Edits texts for clarity and tone.', systemPrompt: 'You edit texts.', model: rehearsal('steady') },
]

/** Agents of the products and of our own, with the scripts that stand for their models. */
export async function prepareWorkflows(server: Server) {
  writeScripts(server, SCRIPTS)
  mkdirSync(join(server.folder, 'rehearsals'), { recursive: true })
  writeFileSync(join(server.folder, 'rehearsals/walkthrough.yaml'), readFileSync(WALKTHROUGH))
  for (const source of ['emergent.research', 'emergent.code']) await server.api('POST', '/api/products/install', { source, accept: true })
  for (const one of await server.api<{ id: string }[]>('GET', '/api/admin/mcp-servers')) await server.api('PATCH', `/api/admin/mcp-servers/${one.id}`, { enabled: false })
  for (const agent of AGENTS) await server.api('POST', '/api/admin/agents', agent)
}

export type WorkflowView = {
  id: string
  status: string
  description: string
  tasks: { id: string; key: string; status: string; agent: string | null; attempts: number }[]
  budget: { limit: { tokens: number | null; usd: number | null } }
}

/** Starts a workflow. On a busy machine a large one may take the database longer than it may; then nothing was written. */
export async function dispatch(server: Server, body: object, attempts = 4): Promise<string> {
  try {
    return (await server.api<{ workflowId: string }>('POST', '/api/coordination/dispatch', body)).workflowId
  } catch (error) {
    if (attempts <= 1 || !String(error).includes('query_timeout')) throw error
    await new Promise((resolve) => setTimeout(resolve, 2000))
    return dispatch(server, body, attempts - 1)
  }
}

/** The walkthrough ends well once in a project: it makes types that are new. */
export const walkthrough = (server: Server) =>
  dispatch(server, { description: 'Break down and implement a document tagging system for the knowledge base', budgetTokens: 40_000, model: rehearsal('walkthrough') })

export const workflowOf = (server: Server, id: string) => server.api<WorkflowView>('GET', `/api/coordination/workflows/${id}`)

/** Waits until a workflow has one of these statuses. */
export async function untilWorkflow(server: Server, id: string, ...statuses: string[]): Promise<WorkflowView> {
  const end = Date.now() + 60_000
  for (;;) {
    const workflow = await workflowOf(server, id)
    if (statuses.includes(workflow.status)) return workflow
    if (Date.now() > end) throw new Error(`the workflow is ${workflow.status}, not ${statuses.join(' or ')}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

export const QUARTER = [
  { key: 'collect-figures', title: 'Collect the figures of the quarter', assignedAgent: 'data-analyst', kind: 'research' },
  { key: 'explain-churn', title: 'Explain why churn fell', assignedAgent: 'data-analyst', blockedBy: ['collect-figures'] },
  { key: 'write-release', title: 'Write the notes of version 2.4', assignedAgent: 'release-writer', maxRetries: 0, blockedBy: ['collect-figures'] },
  { key: 'edit-report', title: 'Edit the report for customers', assignedAgent: 'editor', blockedBy: ['explain-churn', 'write-release'] },
]

/** A workflow in which one task fails, so that a person is asked. */
export const outage = (server: Server, more: object = {}) => dispatch(server, { tasks: QUARTER, model: rehearsal('outage'), ...more })
