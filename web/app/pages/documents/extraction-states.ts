// What became of the attempts to read each document. The API lists firings and runs apart.
import type { Run, Schemas } from '~/api/types'

export type Firing = Schemas['Firing']

/** An attempt to read a document: a run, or a firing that did not become one. */
export type Attempt = { run: Run } | { refused: Firing }

/** Whether an agent should have read a document and was not allowed to start. */
export const isRefused = (firing: Firing) => firing.event === 'on_document_ingested' && firing.status === 'refused' && !firing.runId

/** The text with which a person lets an agent read a document once more. The id comes first, because lists have only the start of a long text. */
export const againText = ({ id, title }: { id: string; title: string }) => `Read the document ${id} again: “${title}”`
/** Earlier texts have the id at the end. */
const AGAIN = /^Read the document (?:“.*” \()?([0-9a-f-]{36})\)? again/s

/** Why an attempt did not extract anything; `undefined` if it did, or still may. */
export function failureOf(attempt: Attempt): string | undefined {
  if ('refused' in attempt) return attempt.refused.reason ?? 'the agent was not started'
  return attempt.run.status === 'failed' ? (attempt.run.errorMessage ?? 'the run failed') : undefined
}

const rank = (attempt: Attempt) => (failureOf(attempt) ? 0 : 'run' in attempt && attempt.run.status === 'completed' ? 2 : 1)

/** Of the newest attempt of each agent, the one that went worst, by document: one agent that read it does not hide another that could not. */
export function extractionStates(firings: readonly Firing[], runs: readonly Run[]): Map<string, Attempt> {
  const newest = new Map<string, [document: string, at: string, Attempt]>()
  const add = (document: string, { agentName, createdAt }: Run | Firing, attempt: Attempt) => {
    const key = document + agentName
    const known = newest.get(key)
    if (!known || createdAt > known[1]) newest.set(key, [document, createdAt, attempt])
  }
  for (const firing of firings) {
    if (firing.event !== 'on_document_ingested' || !firing.entityId) continue
    const run = runs.find(({ id }) => id === firing.runId)
    if (run) add(firing.entityId, run, { run })
    else if (isRefused(firing)) add(firing.entityId, firing, { refused: firing })
  }
  for (const run of runs) {
    const document = AGAIN.exec(run.inputPreview ?? '')?.[1]
    if (document) add(document, run, { run })
  }
  const states = new Map<string, Attempt>()
  for (const [document, , attempt] of newest.values()) {
    const known = states.get(document)
    if (!known || rank(attempt) < rank(known)) states.set(document, attempt)
  }
  return states
}
