import { Link } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import type { RunDetail } from './run-queries'

/** What the person should know about how the run could work. Nothing is shown if there is nothing. */
export function WarningsCard({ run }: { run: RunDetail }) {
  const warnings: [string, ReactNode][] = []
  if (run.status === 'waiting') {
    warnings.push(['waits', <>It waits for a person. <Link to="/inbox" className="underline">Open the inbox</Link></>])
  }
  if (run.doomLoopEvents > 0) warnings.push(['loop', `It was told ${run.doomLoopEvents === 1 ? 'once' : `${run.doomLoopEvents} times`} that it repeats itself.`])
  if (run.toolCallSummary.errors > 0) warnings.push(['errors', `${run.toolCallSummary.errors} of ${run.toolCallSummary.total} tool calls failed.`])
  for (const server of run.unavailableServers ?? []) warnings.push([`server-${server.server}`, `The server ${server.server} could not be used: ${server.reason}`])
  if (run.missingTools?.length) warnings.push(['tools', `There was no tool named ${run.missingTools.join(', ')}.`])
  if (warnings.length === 0) return null
  return (
    <ul aria-label="Warnings" className="space-y-1.5 rounded-lg border border-line bg-wait-soft px-4 py-3 text-wait">
      {warnings.map(([key, text]) => (
        <li key={key} className="flex gap-2">
          <TriangleAlert aria-hidden size={14} className="mt-0.5 shrink-0" />
          <span className="min-w-0 break-words">{text}</span>
        </li>
      ))}
    </ul>
  )
}
