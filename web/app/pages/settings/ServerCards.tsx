import { useQuery } from '@tanstack/react-query'
import { CircleCheck, CircleDashed } from 'lucide-react'
import { Fragment } from 'react'
import { diagnosticsQuery } from '~/api/queries'
import type { Schemas } from '~/api/types'
import { Badge } from '~/ui/Badge'
import { Breakable } from '~/ui/Breakable'
import { Card } from '~/ui/Card'
import { KeyValue } from '~/ui/KeyValue'
import { ListTable } from '~/ui/ListTable'
import { Loaded } from '~/ui/Loaded'
import { formatCount } from '~/util/format'
import { isByDefault, settingsOf } from '~/util/providers'

type Provider = { one: Schemas['ModelProviderState']; settings: Schemas['Setting'][] }

function State({ one, settings }: Provider) {
  if (!one.configured) return <Badge icon={<CircleDashed aria-hidden size={12} />}>Not set</Badge>
  if (isByDefault(one, settings)) return <Badge icon={<CircleDashed aria-hidden size={12} />}>Not checked</Badge>
  return <Badge tone="ok" icon={<CircleCheck aria-hidden size={12} />}>Can be used</Badge>
}

function How({ one, settings }: Provider) {
  if (!one.setting) return 'Needs no key'
  const code = (name: string) => <code className="font-mono wrap-anywhere"><Breakable text={name} /></code>
  if (!one.configured) return <>Start the server with {code(one.setting)}</>
  if (isByDefault(one, settings)) return <>At its default address, if it runs there. {code(one.setting)} names another.</>
  const names = settingsOf(one, settings)
  return names.length > 0 ? <>Set by {names.map((name, index) => <Fragment key={name}>{index > 0 && ' and '}{code(name)}</Fragment>)}</> : 'Set by other settings, or by a login of this machine'
}

export function ModelsCard() {
  const query = useQuery(diagnosticsQuery)
  return (
    <Card title="Models" flush>
      <Loaded query={query} what="The models could not be loaded.">
        {({ models, model, settings }) => (
          <>
            {model && <p className="border-b border-line bg-warn-soft px-4 py-2 text-warn">The server replaces the model of every agent by {model}.</p>}
            <ListTable
              label="Providers of models"
              rows={models}
              rowKey={(one) => one.provider}
              columns={[
                { key: 'provider', head: 'Provider', cell: (one) => <span className="font-medium">{one.provider}</span> },
                { key: 'state', head: 'State', cell: (one) => <State one={one} settings={settings} /> },
                { key: 'how', head: 'How', cell: (one) => <span className="text-xs text-text-2"><How one={one} settings={settings} /></span> },
              ]}
            />
          </>
        )}
      </Loaded>
    </Card>
  )
}

export function ServerCard() {
  const query = useQuery(diagnosticsQuery)
  return (
    <Card title="Server">
      <Loaded query={query} what="The state of the server could not be loaded.">
        {(data) => (
          <>
            <KeyValue
              items={[
                ['Version', `${data.version}${data.commit ? ` (${data.commit})` : ''}`],
                ['Database', `${data.database.engine === 'postgres' ? 'PostgreSQL' : 'SQLite'}, schema ${data.database.schemaVersion}`],
                ['Embeddings', data.embedder.model ?? 'Off: search is by text alone'],
                ['Address', data.listen.address && `${data.listen.address}${data.listen.loopback ? ', this machine only' : ''}`],
                ['Settings file', data.configFile ?? 'None'],
                ['Notices', data.webhooks && `${formatCount(data.webhooks.waiting)} waiting, ${formatCount(data.webhooks.givenUp)} given up${data.webhooks.lastError ? `: ${data.webhooks.lastError}` : ''}`],
              ]}
            />
            <details className="mt-4">
              <summary className="cursor-pointer text-sm font-medium text-accent-text">All {data.settings.length} settings and limits</summary>
              <dl className="mt-2 divide-y divide-line text-xs">
                {data.settings.map((one) => (
                  <div key={one.variable} className="grid gap-x-3 py-1.5 sm:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
                    <dt className="font-mono wrap-anywhere"><Breakable text={one.variable} /></dt>
                    <dd className="wrap-anywhere text-text-2">{one.secret ? (one.isSet ? 'Set, and hidden' : 'Not set') : (one.value ?? 'Not set')}{one.source !== 'default' && ` · by ${one.source}`}</dd>
                  </div>
                ))}
              </dl>
            </details>
          </>
        )}
      </Loaded>
    </Card>
  )
}
