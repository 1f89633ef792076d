import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { api, unwrap } from '~/api/client'
import { isMissing } from '~/api/errors'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { EmptyState } from '~/ui/EmptyState'
import { JsonView } from '~/ui/JsonView'
import { KeyValue } from '~/ui/KeyValue'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { toast } from '~/ui/toast'
import { RelativeTime } from '~/ui/Values'
import { PlanView } from '../products/PlanView'
import { ProductDialog } from '../products/ProductDialog'

const route = getRouteApi('/products/$name')
const DIALOGS = ['upgrade', 'uninstall'] as const

export function ProductPage() {
  const { name } = route.useParams()
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const product = useQuery({ queryKey: keys.product(name), enabled: allowed, queryFn: ({ signal }) => unwrap(api.GET('/api/products/{name}', { params: { path: { name } }, signal })) })
  // A link may name a product that is not there.
  const disabledReason = write.reason ?? reason ?? (product.data ? undefined : isMissing(product.error) ? 'There is no such product in this project.' : 'The product is not loaded.')
  return (
    <>
      <PageHeader
        title={name}
        description={product.data?.description}
        above={<Link to="/products" className="hover:underline">Products</Link>}
        actions={
          <>
            <Button disabledReason={disabledReason} onClick={() => open('uninstall')}>Uninstall…</Button>
            <Button variant="primary" disabledReason={disabledReason} onClick={() => open('upgrade')}>Upgrade…</Button>
          </>
        }
      />
      {!allowed ? (
        <EmptyState title="You cannot see products.">{reason}</EmptyState>
      ) : (
        <Loaded query={product} what="The product could not be loaded.">
          {(one) => (
            <div className="grid items-start gap-4 xl:grid-cols-2">
              <Card title="What it brought">
                <KeyValue
                  items={[
                    ['Version', one.version],
                    ['Source', one.source.at ?? one.source.kind],
                    ['Agents', one.agents.length > 0 ? <span key="a" className="flex flex-wrap gap-x-3">{one.agents.map((agent) => <Link key={agent} to="/agents/$agentId" params={{ agentId: agent }} className="text-accent-text hover:underline">{agent}</Link>)}</span> : null],
                    ['Servers', one.servers.length > 0 ? <span key="s" className="flex flex-wrap gap-x-3">{one.servers.map((server) => <Link key={server} to="/mcp-servers/$name" params={{ name: server }} className="text-accent-text hover:underline">{server}</Link>)}</span> : null],
                    ['Template packs', one.packs.map((pack) => `${pack.name} ${pack.version}`).join(', ') || null],
                    ['Jobs', one.schedules.join(', ') || null],
                    ['Prompts', one.prompts.join(', ') || null],
                    ['Changed by hand', one.ownChanges.length > 0 ? one.ownChanges.map((own) => own.agent).join(', ') : 'Nothing'],
                    ['Installed', <RelativeTime key="i" at={one.installedAt} />],
                  ]}
                />
              </Card>
              <Card title="Manifest"><JsonView value={one.manifest} open={1} /></Card>
            </div>
          )}
        </Loaded>
      )}
      {dialog === 'upgrade' && <ProductDialog upgrade={name} disabledReason={disabledReason} onClose={close} />}
      {dialog === 'uninstall' && <UninstallDialog name={name} disabledReason={disabledReason} onClose={close} />}
    </>
  )
}

function UninstallDialog({ name, disabledReason, onClose }: { name: string; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const send = (dryRun: boolean) => unwrap(api.DELETE('/api/products/{name}', { params: { path: { name }, query: { dryRun } } }))
  const plan = useQuery({ queryKey: ['uninstall', name], gcTime: 0, enabled: disabledReason === undefined, queryFn: () => send(true) })
  const remove = useMutationOnce({
    mutationFn: () => send(false),
    onSuccess: () => {
      toast(`${name} was uninstalled.`)
      void navigate({ to: '/products', replace: true })
      void client.invalidateQueries({ queryKey: keys.products })
      void client.invalidateQueries({ queryKey: keys.agents })
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Uninstall ${name}`} action="Uninstall the product" danger busy={remove.isPending || plan.isLoading} error={remove.error} disabledReason={disabledReason ?? (plan.error ? 'The server refuses it, see above.' : undefined)}>
      {disabledReason ? (
        <p>{disabledReason}</p>
      ) : (
        <>
          <p>What its agents wrote stays.</p>
          <Loaded query={plan} what="The server could not say what would happen.">{(outcome) => <PlanView plan={outcome.plan} />}</Loaded>
        </>
      )}
    </ConfirmDialog>
  )
}
