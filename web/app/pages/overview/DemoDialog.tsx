import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap, unwrapAll, unwrapPage } from '~/api/client'
import { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import { useSession } from '~/api/session'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'
import { randomKey } from '~/util/random-key'
import { PlanView } from '../products/PlanView'
import { GOAL } from './demo'

/** The agent of the chat in the script of the demo, which knows it by this name. */
const GUIDE = 'demo-guide'
const model = { provider: 'rehearsal', name: 'walkthrough' }

/** Creates the agent that a script plays in the chat, and returns its name. No task of a workflow is given to it. */
export async function createGuide(): Promise<string> {
  try {
    await unwrap(api.POST('/api/admin/agents', { body: { name: GUIDE, description: 'A script that searches the graph for your words.', tools: ['search_hybrid'], model, config: { dispatchable: false } } }))
  } catch (error) {
    // It may be there from an earlier visit.
    if (!(error instanceof ApiError) || error.status !== 409) throw error
  }
  return GUIDE
}

const PRODUCTS = ['emergent.research', 'emergent.code']

async function readState(signal: AbortSignal) {
  const installed = await unwrap(api.GET('/api/products', { signal }))
  const missing = PRODUCTS.filter((name) => !installed.some((one) => one.name === name))
  const workflows = await unwrapAll((cursor) => api.GET('/api/coordination/workflows', { params: { query: { limit: 100, cursor } }, signal }))
  return {
    played: workflows.items.find((one) => one.description === GOAL)?.id,
    plans: await Promise.all(missing.map(async (source) => (await unwrap(api.POST('/api/products/install', { body: { source, dryRun: true }, signal }))).plan)),
  }
}

/** Installs what is missing and dispatches the workflow. */
async function startDemo(plans: Schemas['ProductPlan'][], key: string) {
  for (const plan of plans) await unwrap(api.POST('/api/products/install', { body: { source: plan.name, ...(plan.consent ? { accept: plan.consent.digest } : {}) } }))
  // The servers for web search are not needed here, and have no keys yet.
  const servers = await unwrapPage(api.GET('/api/admin/mcp-servers', { params: { query: { limit: 100 } } }))
  for (const server of servers.items.filter((one) => one.enabled && plans.some((plan) => plan.name === one.product))) await unwrap(api.PATCH('/api/admin/mcp-servers/{id}', { params: { path: { id: server.id } }, body: { enabled: false } }))
  return unwrap<Schemas['StartedWorkflow']>(api.POST('/api/coordination/dispatch', { params: { header: { 'Idempotency-Key': key } }, body: { description: GOAL, model } }) as never)
}

/** Creates the next project of the demo, named as `emergent demo --fresh` names it. */
async function createProject(): Promise<string> {
  const { items } = await unwrapAll((cursor) => api.GET('/api/projects', { params: { query: { limit: 100, cursor } } }))
  let number = 2
  while (items.some((one) => one.name === `demo-${number}`)) number++
  return (await unwrap(api.POST('/api/projects', { body: { name: `demo-${number}` } }))).name
}

/** Shows what the demo installs and uses, and after consent installs it and dispatches the workflow. */
export function DemoDialog({ disabledReason, onClose }: { disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const session = useSession()
  const [key] = useState(randomKey)
  // What an earlier dialog read is forgotten: the demo may have been played since, and is played once in a project.
  const state = useQuery({ queryKey: ['demo-plans'], enabled: disabledReason === undefined, staleTime: 0, gcTime: 0, queryFn: ({ signal }) => readState(signal) })
  const { plans = [], played } = state.data ?? {}
  const show = (workflowId: string) => void navigate({ to: '/workflows/$workflowId', params: { workflowId }, replace: true })
  const start = useMutationOnce({
    mutationFn: () => startDemo(plans, key),
    onSuccess: ({ workflowId }) => {
      toast('The demo has started.')
      void client.invalidateQueries()
      show(workflowId)
    },
    // It is not over before the plan is read again: a part of it may be installed.
    onError: () => state.refetch(),
  })
  const again = useMutationOnce({
    mutationFn: createProject,
    onSuccess: (project) => {
      toast(`The project ${project} was created.`)
      void client.invalidateQueries({ queryKey: keys.projects })
      void navigate({ to: '/workflows', search: { project, dispatch: 'demo' } })
    },
  })
  return (
    <Dialog
      open
      onClose={onClose}
      title="Run the demo workflow"
      description="A planner makes five tasks, agents discuss a design, a test fails and its task is done again. A script plays the models: no key, no cost, about half a minute."
      footer={
        played ? (
          <>
            <Button onClick={() => show(played)}>Show how it went</Button>
            <Button variant="primary" busy={again.isPending || again.isSuccess} disabledReason={session?.project ? 'Your token is for this project only, and cannot create another.' : undefined} onClick={() => again.mutate()}>
              Play it in a new project…
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Not now</Button>
            <Button variant="primary" busy={start.isPending || start.isSuccess} disabledReason={disabledReason ?? (state.data && !state.isFetching ? undefined : 'The plan is not known yet.')} onClick={() => start.mutate()}>
              {plans.some((plan) => plan.consent) ? 'Accept and run the demo' : 'Run the demo'}
            </Button>
          </>
        )
      }
    >
      {disabledReason ? (
        <p>{disabledReason}</p>
      ) : !state.data ? (
        !state.error && <SkeletonRows rows={4} />
      ) : played ? (
        <p>The demo was played in this project before. It makes types that are new, so it is played again in a project of its own.</p>
      ) : plans.length === 0 ? (
        <p className="text-text-2">The products that it needs are installed. What its agents write is in the graph afterwards, with the run that wrote it.</p>
      ) : (
        <div className="space-y-5">
          <p className="text-text-2">Its products are installed first. The servers for web search that they bring are switched off, because the demo does not need them.</p>
          {plans.some(({ uses }) => uses && uses.schedules.length + uses.events.length > 0) && (
            <p className="text-text-2">Agents that start at a time or an event do so after the demo as well, with models of their own. The page Schedules lists them; pause or delete there what you do not want.</p>
          )}
          {plans.map((plan) => <PlanView key={plan.name} plan={plan} />)}
        </div>
      )}
      <InlineError error={state.error ?? start.error ?? again.error} />
    </Dialog>
  )
}
