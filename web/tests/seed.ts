// Work for the pages to show: agents whose models are scripts, and runs that end in every way.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Server } from './server'

const SCRIPTS: Record<string, string> = {
  cleaner: `
rules:
  - when: { step: 1 }
    answer:
      text: I remove the old note.
      calls: [{ tool: entities_delete, input: { id: "Note/old" } }]
  - when: {}
    answer: { text: That is all. }
`,
  researcher: `
rules:
  - when: { turn: 1 }
    answer:
      text: I search the graph.
      calls: [{ tool: search_hybrid, input: { query: tagging, limit: 5 } }]
  - when: { input: "note G" }
    answer: { text: "Note G describes how the Analytical Engine would compute Bernoulli numbers, step by step." }
  - when: { input: "Grace Hopper" }
    answer: { text: "Grace Hopper wrote the first compiler in 1952 and shaped COBOL after it." }
  - when: { input: "worked with" }
    answer: { text: "Three people are connected by a letter or a joint work; the oldest letter is from 1833." }
  - when: { input: "cite" }
    answer: { text: "Two works cite it, both from the years after 1950." }
  - when: {}
    answer: { text: "Nothing is known about tagging yet." }
`,
  slow: `
rules:
  - when: {}
    delay_ms: 600000
    answer: { text: Done. }
`,
  broken: `
rules:
  - when: {}
    fault: auth
`,
}

const QUESTIONS = [
  'Do we know anything about tagging?',
  'What does note G say?',
  'Who worked with Ada Lovelace?',
  'Which works cite the first compiler?',
  'What did Grace Hopper build?',
  'Who worked with Charles Babbage?',
  'Which works cite the universal machine?',
  'What does note G leave open?',
  'Who worked with Grace Hopper?',
  'Which works cite the lambda calculus?',
  'What did Grace Hopper write about bugs?',
  'Who worked with Alan Turing?',
  'Is there a note on tagging of documents?',
  'Which works cite note G?',
]

export const rehearsal = (name: string) => ({ provider: 'rehearsal', name })

/** Writes the scripts of models into the data folder of a server. */
export function writeScripts(server: Server, scripts: Record<string, string> = SCRIPTS) {
  const folder = join(server.folder, 'rehearsals')
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of Object.entries(scripts)) writeFileSync(join(folder, `${name}.yaml`), text)
}

export type Run = { id: string; status: string }

/** Starts a run and returns its id. */
export async function trigger(server: Server, agent: string, input: string, more: object = {}): Promise<string> {
  const { runId } = await server.api<{ runId: string }>('POST', `/api/admin/agents/${agent}/trigger`, { input, ...more })
  return runId
}

/** Waits until a run has one of these statuses. */
export async function untilStatus(server: Server, runId: string, ...statuses: string[]): Promise<Run> {
  const end = Date.now() + 60_000
  for (;;) {
    const run = await server.api<Run>('GET', `/api/admin/runs/${runId}`)
    if (statuses.includes(run.status)) return run
    if (Date.now() > end) throw new Error(`the run is ${run.status}, not ${statuses.join(' or ')}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Agents, runs of every status, a request in the inbox, and a budget. */
export async function seed(server: Server) {
  writeScripts(server)
  await server.api('POST', '/api/graph/objects', { type: 'Note', key: 'old', properties: { title: 'An old note' } })
  const agents = [
    { name: 'note-cleaner', description: 'Removes notes that nobody needs.', tools: ['entities_*'], model: rehearsal('cleaner'), approvals: [{ tools: ['entities_delete'], action: 'ask' }] },
    { name: 'researcher', description: 'Finds what the graph knows.', tools: ['search_hybrid'], model: rehearsal('researcher') },
    { name: 'release-watcher', description: 'Watches for new releases.', model: rehearsal('slow') },
    { name: 'invoice-reader', description: 'Reads invoices.', model: rehearsal('broken') },
  ]
  for (const agent of agents) await server.api('POST', '/api/admin/agents', agent)
  await server.api('PUT', '/api/coordination/budgets', { tokens: 200_000 })
  await server.api('PUT', '/api/coordination/budgets', { agent: 'researcher', tokens: 60_000 })
  const completed: string[] = []
  const ask = async (questions: string[]) => {
    for (const question of questions) completed.push(await trigger(server, 'researcher', question))
  }
  // Mixed, as in a real list.
  await ask(QUESTIONS.slice(0, 7))
  const failed = [await trigger(server, 'invoice-reader', 'Read invoice 4711'), await trigger(server, 'invoice-reader', 'Read invoice 4712')]
  await ask(QUESTIONS.slice(7, 10))
  const waiting = await trigger(server, 'note-cleaner', 'Tidy up')
  const paused = await trigger(server, 'researcher', 'What do we know about tagging?', { maxSteps: 1 })
  await ask(QUESTIONS.slice(10, 12))
  const running = [await trigger(server, 'release-watcher', 'Watch the releases of this week'), await trigger(server, 'release-watcher', 'Watch the nightly builds')]
  await ask(QUESTIONS.slice(12))
  await untilStatus(server, waiting, 'waiting')
  for (const run of failed) await untilStatus(server, run, 'failed')
  await untilStatus(server, paused, 'paused')
  for (const run of completed) await untilStatus(server, run, 'completed')
  return { waiting, running, failed, paused, completed }
}
