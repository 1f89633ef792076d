// What the palette lists for a text: pages and actions at once, the rest from the API.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, unwrap, unwrapPage } from '~/api/client'
import { agentsQuery, workflowsQuery } from '~/api/queries'
import { lacksScope, useSession } from '~/api/session'
import type { Scope } from '~/api/types'
import { useDebounced } from '~/hooks/use-debounced'
import { askToDiscard, hasUnsaved } from '~/hooks/use-unsaved'
import type { RawSearch } from '~/hooks/use-url-state'
import { type Action, isRegistered, useRegisteredActions } from '~/util/actions'
import { formatRelative, shortId, words } from '~/util/format'
import { titleOf } from '~/util/objects'
import { shortText } from '~/util/short-text'
import { PAGES } from './navigation'

/** `disabledReason`: why it cannot be run. */
export type Entry = { id: string; group: string; label: string; hint?: string; disabledReason?: string | undefined; run: () => void }

const LIMIT = 5
/** How many workflows are searched: the API lists them, and has no search. */
const WORKFLOWS = 100
const ACTIONS = 'Actions'

/**
 * What every page offers: each entry opens its page with the dialog. An entry has the id of the action that its page
 * registers, which replaces it while that page is shown: what its button refuses is refused here as well.
 */
const EVERYWHERE: [id: string, label: string, to: string, search: RawSearch, ...scopes: Scope[]][] = [
  ['workflow-dispatch', 'Dispatch a workflow…', '/workflows', { dispatch: 'new' }, 'agents:read', 'agents:invoke'],
  ['chat-new', 'Start a conversation', '/chat', {}, 'chat:use'],
  ['agents-new', 'Create an agent…', '/agents', { dialog: 'new' }, 'agents:write'],
  ['documents-upload', 'Upload a document…', '/documents', { dialog: 'upload' }, 'graph:read', 'graph:write'],
  ['graph-create', 'Create an object…', '/graph', { dialog: 'create' }, 'graph:read', 'graph:write'],
  ['products-install', 'Install a product…', '/products', { dialog: 'install' }, 'admin:read', 'admin:write'],
]

/** A dialog with text may be open below the palette. */
const mayLeaveDialog = async () => !hasUnsaved('dialog') || askToDiscard()
const runAction = async ({ keepsDialog, run }: Action) => {
  if (keepsDialog || (await mayLeaveDialog())) run()
}
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const matches = (text: string, ...fields: (string | undefined)[]) => {
  const haystack = fields.join(' ').toLowerCase()
  return text.toLowerCase().split(/\s+/).every((word) => haystack.includes(word))
}

/** What cannot be run is no suggestion. Whoever searches for it learns why. */
export const isOffered = (text: string, disabledReason: string | undefined) => disabledReason === undefined || text.trim() !== ''

export function useEntries(text: string): { entries: Entry[]; isSearching: boolean; problem: string | undefined; note: string | undefined } {
  const leave = useNavigate()
  const navigate = (async (to) => {
    if (await mayLeaveDialog()) await leave(to)
  }) as typeof leave
  const actions = useRegisteredActions()
  const scopes = useSession()?.scopes ?? []
  const q = useDebounced(text.trim())
  const may = (scope: Scope) => q !== '' && scopes.includes(scope)

  const agents = useQuery({ ...agentsQuery, enabled: may('agents:read') })
  const workflows = useQuery({ ...workflowsQuery(undefined, WORKFLOWS), enabled: may('agents:read') })
  const runs = useQuery({
    queryKey: ['palette', 'runs', q],
    enabled: may('admin:read'),
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/admin/runs', { params: { query: { q, limit: LIMIT } }, signal })),
  })
  const objects = useQuery({
    queryKey: ['palette', 'objects', q],
    enabled: may('graph:read'),
    queryFn: ({ signal }) => unwrap(api.POST('/api/graph/search', { body: { query: q, limit: LIMIT }, signal })),
  })

  const entries: Entry[] = []
  const addActions = (isOfPage: boolean) => {
    for (const action of actions) {
      const { group = ACTIONS, disabledReason } = action
      if ((group !== ACTIONS) === isOfPage && isOffered(text, disabledReason) && matches(text, action.label, action.keywords)) entries.push({ id: action.id, group, label: action.label, disabledReason, run: () => void runAction(action) })
    }
  }
  addActions(true)
  for (const page of PAGES) {
    if (matches(text, page.label)) entries.push({ id: page.to, group: 'Pages', label: page.label, hint: page.key ? `g ${page.key}` : undefined, run: () => void navigate({ to: page.to }) })
  }
  for (const [id, label, to, search, ...needed] of EVERYWHERE) {
    const lacking = needed.find((scope) => !scopes.includes(scope))
    const disabledReason = lacking && lacksScope(lacking)
    if (!isRegistered(id) && isOffered(text, disabledReason) && matches(text, label, to)) entries.push({ id, group: ACTIONS, label, disabledReason, run: () => void navigate({ to, search }) })
  }
  addActions(false)
  if (ID.test(q)) {
    // An id does not say what it names; the page that is opened does.
    entries.push({ id: `run-${q}`, group: 'By id', label: `Open the run ${shortId(q)}`, run: () => void navigate({ to: '/runs/$runId', params: { runId: q } }) })
    entries.push({ id: `workflow-${q}`, group: 'By id', label: `Open the workflow ${shortId(q)}`, run: () => void navigate({ to: '/workflows/$workflowId', params: { workflowId: q } }) })
    entries.push({ id: `object-${q}`, group: 'By id', label: `Open the object ${shortId(q)}`, run: () => void navigate({ to: '/graph/objects/$objectId', params: { objectId: q } }) })
  }
  if (q !== '') {
    const byName = (one: { name: string }) => (matches(q, one.name) ? 0 : 1)
    const found = (agents.data?.items ?? []).filter((one) => matches(q, one.name, one.description)).sort((one, other) => byName(one) - byName(other))
    for (const agent of found.slice(0, LIMIT)) {
      entries.push({ id: agent.id, group: 'Agents', label: agent.name, hint: agent.description.slice(0, 60), run: () => void navigate({ to: '/agents/$agentId', params: { agentId: agent.id } }) })
    }
    for (const run of runs.data?.items ?? []) {
      entries.push({ id: run.id, group: 'Runs', label: `${run.agentName} ${shortId(run.id)}${run.inputPreview ? `: ${shortText(run.inputPreview)}` : ''}`, hint: `${words(run.status)} · ${formatRelative(Date.parse(run.createdAt), Date.now())}`, run: () => void navigate({ to: '/runs/$runId', params: { runId: run.id } }) })
    }
    for (const workflow of (workflows.data?.items ?? []).filter((one) => matches(q, one.description)).slice(0, LIMIT)) {
      entries.push({ id: workflow.id, group: 'Workflows', label: workflow.description || workflow.id, hint: words(workflow.status), run: () => void navigate({ to: '/workflows/$workflowId', params: { workflowId: workflow.id } }) })
    }
    for (const hit of objects.data?.hits ?? []) {
      const { object } = hit
      entries.push({ id: object.id, group: 'Objects', label: titleOf(object) === object.id ? `${object.type} ${shortId(object.id)}` : titleOf(object), hint: object.type, run: () => void navigate({ to: '/graph/objects/$objectId', params: { objectId: object.id } }) })
    }
  }
  const failed = [agents, workflows, runs, objects].find((query) => query.error)
  return {
    entries,
    isSearching: [agents, workflows, runs, objects].some((query) => query.isFetching) || q !== text.trim(),
    note: q !== '' && workflows.data?.cursor ? `Of the workflows, the newest ${WORKFLOWS} were searched.` : undefined,
    problem: failed?.error ? `The search is not complete: ${failed.error.message}` : undefined,
  }
}
