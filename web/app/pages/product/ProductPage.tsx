import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
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
const parse = (raw: RawSearch) => ({ dialog: oneOf(['upgrade', 'uninstall'], raw.dialog) })

export function ProductPage() {
  const { name } = route.useParams()
  const [search, change] = useUrlState(parse)
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const product = useQuery({ queryKey: keys.product(name), enabled: allowed, queryFn: ({ signal }) => unwrap(api.GET('/api/products/{name}', { params: { path: { name } }, signal })) })
  const close = () => change({ dialog: '' })
  return (
    <>
      <PageHeader
        title={name}
        description={product.data?.description}
        above={<Link to="/products" className="hover:underline">Products</Link>}
        actions={
          <>
            <Button disabledReason={write.reason} onClick={() => change({ dialog: 'uninstall' })}>Uninstall…</Button>
            <Button variant="primary" disabledReason={write.reason} onClick={() => change({ dialog: 'upgrade' })}>Upgrade…</Button>
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
      {search.dialog === 'upgrade' && <ProductDialog upgrade={name} onClose={close} />}
      {search.dialog === 'uninstall' && <UninstallDialog name={name} onClose={close} />}
    </>
  )
}

function UninstallDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const send = (dryRun: boolean) => unwrap(api.DELETE('/api/products/{name}', { params: { path: { name }, query: { dryRun } } }))
  const plan = useQuery({ queryKey: ['uninstall', name], gcTime: 0, queryFn: () => send(true) })
  const remove = useMutation({
    mutationFn: () => send(false),
    onSuccess: () => {
      toast(`${name} was uninstalled.`)
      void navigate({ to: '/products' })
      void client.invalidateQueries({ queryKey: keys.products })
      void client.invalidateQueries({ queryKey: keys.agents })
    },
  })
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => remove.mutate()} title={`Uninstall ${name}`} action="Uninstall the product" danger busy={remove.isPending || plan.isPending} error={remove.error} disabledReason={plan.error ? 'The server refuses it, see above.' : undefined}>
      <p>What its agents wrote stays.</p>
      <Loaded query={plan} what="The server could not say what would happen.">{(outcome) => <PlanView plan={outcome.plan} />}</Loaded>
    </ConfirmDialog>
  )
}
