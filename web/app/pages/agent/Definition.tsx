import { Link } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import type { Agent } from '~/api/types'
import { Badge } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { JsonView } from '~/ui/JsonView'
import { KeyValue } from '~/ui/KeyValue'
import { RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { formatDuration, words } from '~/util/format'
import { jsonText } from '~/util/json'
import { modelName } from '../agents/agent-facts'

const ACTIONS = { allow: 'ok', ask: 'wait', deny: 'fail' } as const
const FLOWS = { single: 'By itself', sequential: 'Others, one after the other', loop: 'Others, again and again', parallel: 'Others at once' }

/** The definition of an agent, section by section. */
export function Definition({ agent }: { agent: Agent }) {
  return (
    <div className="grid items-start gap-4 xl:grid-cols-[3fr_2fr]">
      <div className="grid gap-4">
        {(agent.warnings?.length ?? 0) > 0 && (
          <div role="note" className="rounded-lg border border-line bg-warn-soft px-4 py-3 text-sm">
            <p className="flex items-center gap-2 font-medium text-warn"><TriangleAlert aria-hidden size={14} />This is probably a mistake</p>
            {agent.warnings?.map((one) => <p key={one.field} className="mt-1"><code className="font-mono text-xs">{one.field}</code>: <WithCode text={one.reason} /></p>)}
          </div>
        )}
        <Card title="Prompt">{agent.systemPrompt ? <p className="text-sm leading-6 whitespace-pre-wrap">{agent.systemPrompt}</p> : <p className="text-text-2">It has no prompt of its own.</p>}</Card>
        {agent.outputSchema && <Card title="Output schema"><JsonView value={agent.outputSchema} /></Card>}
        {Object.keys(agent.config).length > 0 && <Card title="Further settings"><JsonView value={agent.config} /></Card>}
      </div>
      <div className="grid gap-4">
        <Card title="Model and limits">
          <KeyValue
            items={[
              ['Model', <code key="m" className="font-mono text-xs">{modelName(agent.model)}</code>],
              ['Temperature', agent.model?.temperature ?? null],
              ['Tokens per answer', agent.model?.maxTokens ?? null],
              ['Most steps', agent.maxSteps ?? 'Default of the server'],
              ['Timeout', agent.defaultTimeout ? formatDuration(agent.defaultTimeout * 1000) : 'Default of the server'],
              ['Works', FLOWS[agent.flowType]],
              ['Through', agent.flowConfig?.agents?.join(', ') || null],
              ['Starts at', agent.trigger ? <code key="t" className="font-mono text-xs">{agent.trigger}</code> : 'Only when asked'],
              ['Product', agent.product ? <Link key="p" to="/products/$name" params={{ name: agent.product }} className="text-accent-text hover:underline">{agent.product}</Link> : null],
              ['Changed', <RelativeTime key="c" at={agent.updatedAt} />],
            ]}
          />
        </Card>
        <Card title={`Tools (${agent.tools.length})`}>
          {agent.tools.length === 0 ? (
            <p className="text-text-2">It has no tools: it can only answer.</p>
          ) : (
            <ul className="flex flex-wrap gap-1.5">
              {agent.tools.map((tool) => (
                <li key={tool}><Link to="/tools" search={{ q: tool.replaceAll('*', '') }} className="inline-block rounded bg-sunken px-1.5 py-0.5 font-mono text-xs wrap-anywhere hover:underline">{tool}</Link></li>
              ))}
            </ul>
          )}
        </Card>
        <Card title="Approvals">
          {(agent.approvals?.length ?? 0) === 0 ? (
            <p className="text-text-2">No rule. Calls are made without asking, except those that an external server marks as destructive.</p>
          ) : (
            <ol className="space-y-2 text-sm">
              {agent.approvals?.map((rule, index) => (
                <li key={index}>
                  <Badge tone={ACTIONS[rule.action]}>{rule.action}</Badge> <code className="font-mono text-xs">{rule.tools.join(', ')}</code>
                  {rule.when && rule.when.length > 0 && <span className="text-text-2"> when {rule.when.map((one) => `${one.path} ${one.op} ${jsonText(one.value)}`).join(' and ')}</span>}
                  {rule.expiresIn && <span className="text-text-2">; after {formatDuration(rule.expiresIn * 1000)}: {words(rule.onExpiry ?? 'deny')}</span>}
                </li>
              ))}
            </ol>
          )}
        </Card>
      </div>
    </div>
  )
}
