import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Package, Plus } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { RelativeTime } from '~/ui/Values'
import { CheckUpdates, type Update, VersionCell } from './CheckUpdates'
import { ProductDialog } from './ProductDialog'

const DIALOGS = ['install'] as const

export function ProductsPage() {
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const { allowed, reason } = useScope('admin:read')
  const write = useScope('admin:write')
  const products = useQuery({ queryKey: [...keys.products, 'list'], enabled: allowed, queryFn: ({ signal }) => unwrap(api.GET('/api/products', { signal })) })
  const [updates, setUpdates] = useState<Update[]>([])
  const install = <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={write.reason} onClick={() => open('install')}>Install a product</Button>
  return (
    <>
      <PageHeader title="Products" description="Agents, tools, prompts and jobs that belong together, installed as one." actions={<><CheckUpdates onFound={setUpdates} />{install}</>} />
      <Panel>
        {!allowed ? (
          <EmptyState title="You cannot see products.">{reason}</EmptyState>
        ) : (
          <Loaded query={products} what="The products could not be loaded.">
            {(items) =>
              items.length === 0 ? (
                <EmptyState icon={<Package aria-hidden size={18} />} title="No product is installed." action={install}>Three come with the server: memory, research and code.</EmptyState>
              ) : (
                <ListTable
                  label="Products"
                  rows={items}
                  rowKey={(one) => one.name}
                  columns={[
                    { key: 'name', head: 'Product', cell: (one) => <><Link to="/products/$name" params={{ name: one.name }} className="font-medium hover:underline">{one.name}</Link><p className="line-clamp-1 text-xs text-text-2">{one.description}</p></> },
                    { key: 'version', head: 'Version', cell: (one) => <VersionCell version={one.version} update={updates.find((update) => update.name === one.name)} /> },
                    { key: 'agents', head: 'Agents', align: 'end', from: 'sm', cell: (one) => one.agents.length },
                    { key: 'servers', head: 'Servers', align: 'end', from: 'md', cell: (one) => one.servers.length },
                    { key: 'updated', head: 'Installed', align: 'end', cell: (one) => <RelativeTime at={one.updatedAt} className="whitespace-nowrap text-text-2" /> },
                  ]}
                />
              )
            }
          </Loaded>
        )}
      </Panel>
      {dialog && <ProductDialog disabledReason={write.reason} onClose={close} />}
    </>
  )
}
