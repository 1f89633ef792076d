import { Link } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import type { RunDetail } from './run-queries'
import { hasFailed, type RunRecord } from './run-record'

/** How many calls failed. The sums of a run count a denied call among the errors, so the calls are counted here. */
export function callProblem(record: RunRecord, total: number): string | undefined {
  const calls = record.items.filter((item) => item.kind === 'call')
  const [denied, failed] = [calls.filter((call) => call.denied).length, calls.filter(hasFailed).length]
  if (denied > 0) return `Of ${total} tool ${total === 1 ? 'call' : 'calls'}: ${denied} denied, ${failed} failed.`
  return failed > 0 ? `${failed} of ${total} tool calls failed.` : undefined
}

/** What the person should know about how the run could work. Nothing is shown if there is nothing. */
export function WarningsCard({ run, record }: { run: RunDetail; record: RunRecord }) {
  const warnings: [string, ReactNode][] = []
  if (run.status === 'waiting') {
    const [request] = record.requests.keys()
    const more = record.requests.size - 1
    warnings.push(['waits', <span key="waits" className="text-wait">It waits for a person. <Link to="/inbox" search={request ? { item: request } : {}} className="underline">{request ? 'Open the request' : 'Open the inbox'}</Link>{more > 0 && ` and ${more} more.`}</span>])
  }
  if (run.doomLoopEvents > 0) warnings.push(['loop', `It was told ${run.doomLoopEvents === 1 ? 'once' : `${run.doomLoopEvents} times`} that it repeats itself.`])
  const problem = callProblem(record, run.toolCallSummary.total)
  if (problem) warnings.push(['errors', problem])
  for (const server of run.unavailableServers ?? []) warnings.push([`server-${server.server}`, `The server ${server.server} could not be used: ${server.reason}`])
  if (run.missingTools?.length) warnings.push(['tools', `There was no tool named ${run.missingTools.join(', ')}.`])
  if (warnings.length === 0) return null
  return (
    <ul aria-label="Warnings" className="space-y-1.5 rounded-lg border border-line bg-warn-soft px-4 py-3 text-warn">
      {warnings.map(([key, text]) => (
        <li key={key} className="flex gap-2">
          <TriangleAlert aria-hidden size={14} className="mt-0.5 shrink-0" />
          <span className="min-w-0 break-words">{text}</span>
        </li>
      ))}
    </ul>
  )
}
