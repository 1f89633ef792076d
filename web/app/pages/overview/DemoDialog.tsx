import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap, unwrapPage } from '~/api/client'
import type { Schemas } from '~/api/types'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'
import { randomKey } from '~/util/random-key'
import { PlanView } from '../products/PlanView'

const GOAL = 'Break down and implement a document tagging system for the knowledge base'
const PRODUCTS = ['emergent.research', 'emergent.code']

/** Shows what the demo installs and uses, and after consent installs it and dispatches the workflow. */
export function DemoDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [key] = useState(randomKey)
  const plans = useQuery({
    queryKey: ['demo-plans'],
    staleTime: 0,
    queryFn: async ({ signal }) => {
      const installed = await unwrap(api.GET('/api/products', { signal }))
      const missing = PRODUCTS.filter((name) => !installed.some((one) => one.name === name))
      return Promise.all(missing.map(async (source) => (await unwrap(api.POST('/api/products/install', { body: { source, dryRun: true }, signal }))).plan))
    },
  })
  const start = useMutation({
    mutationFn: async () => {
      const fresh = plans.data ?? []
      for (const plan of fresh) await unwrap(api.POST('/api/products/install', { body: { source: plan.name, ...(plan.consent ? { accept: plan.consent.digest } : {}) } }))
      // The servers for web search are not needed here, and have no keys yet.
      const servers = await unwrapPage(api.GET('/api/admin/mcp-servers', { params: { query: { limit: 100 } } }))
      for (const server of servers.items.filter((one) => one.enabled && fresh.some((plan) => plan.name === one.product))) await unwrap(api.PATCH('/api/admin/mcp-servers/{id}', { params: { path: { id: server.id } }, body: { enabled: false } }))
      return unwrap<Schemas['StartedWorkflow']>(api.POST('/api/coordination/dispatch', { params: { header: { 'Idempotency-Key': key } }, body: { description: GOAL, model: { provider: 'rehearsal', name: 'walkthrough' } } }) as never)
    },
    onSuccess: ({ workflowId }) => {
      toast('The demo has started.')
      void client.invalidateQueries()
      void navigate({ to: '/workflows/$workflowId', params: { workflowId } })
    },
    onError: () => void plans.refetch(),
  })
  const needsConsent = plans.data?.some((plan) => plan.consent)
  return (
    <Dialog
      open
      onClose={onClose}
      title="Run the demo workflow"
      description="It takes about half a minute. Its products are installed first; the servers for web search that they bring are switched off, because the demo does not need them."
      footer={<><Button onClick={onClose}>Not now</Button><Button variant="primary" busy={start.isPending} disabledReason={plans.data ? undefined : 'The plan is not known yet.'} onClick={() => start.mutate()}>{needsConsent ? 'Accept and run the demo' : 'Run the demo'}</Button></>}
    >
      {plans.data ? <div className="space-y-5">{plans.data.map((plan) => <PlanView key={plan.name} plan={plan} />)}</div> : !plans.error && <SkeletonRows rows={4} />}
      <InlineError error={plans.error ?? start.error} />
    </Dialog>
  )
}
