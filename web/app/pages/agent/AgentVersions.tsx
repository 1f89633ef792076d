import { useQuery } from '@tanstack/react-query'
import { api, unwrapAll } from '~/api/client'
import { keys } from '~/api/keys'
import { Card } from '~/ui/Card'
import { Diff } from '~/ui/Diff'
import { JsonView } from '~/ui/JsonView'
import { ListEnd } from '~/ui/ListEnd'
import { Loaded } from '~/ui/Loaded'
import { RelativeTime } from '~/ui/Values'
import { classes } from '~/util/classes'
import { AuthorLine, AuthorName } from '../object/AuthorLine'

/** Every version of a definition, and what the chosen one changed. */
export function AgentVersions({ agentId, chosen, onChoose }: { agentId: string; chosen: string | undefined; onChoose: (version: string) => void }) {
  const history = useQuery({
    queryKey: [...keys.agent(agentId), 'history'],
    queryFn: ({ signal }) => unwrapAll((cursor) => api.GET('/api/admin/agents/{agentId}/history', { params: { path: { agentId }, query: { limit: 100, cursor } }, signal })),
  })
  return (
    <Loaded query={history} what="The versions could not be loaded.">
      {(page) => {
        const { items } = page
        const index = Math.max(0, items.findIndex((one) => String(one.version) === chosen))
        const [version, before] = [items[index], items[index + 1]]
        return (
          <div className="grid items-start gap-4 lg:grid-cols-[240px_1fr]">
            <Card title="Versions" flush>
              <ul className="max-h-120 overflow-auto py-1">
                {items.map((one, at) => (
                  <li key={one.version}>
                    <button type="button" aria-current={at === index || undefined} onClick={() => onChoose(String(one.version))} className={classes('flex w-full justify-between gap-2 px-4 py-1.5 text-left text-sm hover:bg-hover', at === index && 'bg-selected font-medium')}>
                      <span className="min-w-0">
                        Version {one.version}
                        <span className="block truncate text-xs font-normal text-text-2"><AuthorName author={one.author} /></span>
                      </span>
                      <RelativeTime at={one.createdAt} className="text-xs text-text-2" />
                    </button>
                  </li>
                ))}
              </ul>
              <ListEnd page={page} />
            </Card>
            {version && (
              <Card title={before ? `What version ${version.version} changed` : `Version ${version.version}`}>
                <p className="mb-3 text-text-2"><AuthorLine author={version.author} /></p>
                {before ? <Diff key={version.version} before={before.definition} after={version.definition} /> : <JsonView value={version.definition} />}
              </Card>
            )}
          </div>
        )
      }}
    </Loaded>
  )
}
