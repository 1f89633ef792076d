import { Link } from '@tanstack/react-router'
import { memo } from 'react'
import { Meter } from '~/ui/Charts'
import { KeyValue } from '~/ui/KeyValue'
import { Markdown } from '~/ui/Markdown'
import { Duration, Money, RelativeTime } from '~/ui/Values'
import { capitalised, formatCount, formatMoney, formatSpent, shortId } from '~/util/format'
import { titleOf, type Workflow } from './workflow-query'

/** The heading of the page has room for a goal of this length in every window. */
const FITS = 80

/** What is said about the workflow as a whole: its goal, its result, its budget and where that went, its settings. */
export const WorkflowFacts = memo(({ workflow }: { workflow: Workflow }) => {
  const { budget, settings } = workflow
  const description = workflow.description.trim()
  const agents = [...budget.byAgent].sort((a, b) => b.spent.tokens - a.spent.tokens)
  const most = Math.max(1, ...agents.map(({ spent }) => spent.tokens))
  return (
    // It scrolls, so the keyboard has to reach it.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div tabIndex={0} role="group" aria-label="About the workflow" className="min-h-0 flex-1 space-y-5 overflow-auto px-4 py-3 -outline-offset-2">
      {workflow.summary && (
        <section>
          <h2 className="mb-1 text-sm font-semibold">Summary</h2>
          <Markdown text={workflow.summary} />
        </section>
      )}
      <section>
        <h2 className="mb-2 text-sm font-semibold">Budget</h2>
        <BudgetLine label="Tokens" spent={budget.spent.tokens} reserved={budget.reserved.tokens} limit={budget.limit.tokens} format={formatCount} />
        <BudgetLine label="Dollars" spent={budget.spent.usd} reserved={budget.reserved.usd} limit={budget.limit.usd} format={formatMoney} />
        {budget.unpricedCalls > 0 && <p className="text-xs text-text-2">{formatCount(budget.unpricedCalls)} calls have no known price.</p>}
      </section>
      {agents.length > 0 && (
        <section>
          <h2 className="mb-2 text-sm font-semibold">Spent by agent</h2>
          <ul className="space-y-2">
            {agents.map(({ agent, spent }) => (
              <li key={agent}>
                <div className="mb-0.5 flex justify-between gap-2 text-xs">
                  <span className="truncate">{agent}</span>
                  <span className="whitespace-nowrap text-text-2">
                    {formatCount(spent.tokens)} tokens · <Money usd={spent.usd} />
                  </span>
                </div>
                <svg aria-hidden viewBox="0 0 100 4" preserveAspectRatio="none" className="block h-1 w-full">
                  <rect width="100" height="4" className="fill-sunken" />
                  <rect width={(spent.tokens / most) * 100} height="4" className="fill-run-fill" />
                </svg>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h2 className="mb-2 text-sm font-semibold">Facts</h2>
        <KeyValue
          items={[
            ['Started', <RelativeTime key="s" at={workflow.createdAt} />],
            ['Took', <Duration key="d" milliseconds={workflow.completedAt ? Date.parse(workflow.completedAt) - Date.parse(workflow.createdAt) : undefined} since={workflow.createdAt} />],
            ['Planned by', workflow.plannerRunId && <RunLink key="p" runId={workflow.plannerRunId} />],
            ['Started by', workflow.startedByRun ? <RunLink key="b" runId={workflow.startedByRun} /> : workflow.origin?.name],
            ['Model', settings.model ?? 'Each agent’s own'],
            ['At a time', `${settings.maxConcurrent} tasks`],
            ['Selection', capitalised(settings.selector)],
            ['If a task fails', settings.onFailure === 'escalate' ? 'Ask a person' : 'Skip what depends on it'],
            ['Results', settings.evaluate ? 'Evaluated by a model' : undefined],
          ]}
        />
      </section>
      {(description !== titleOf(workflow) || description.length > FITS) && (
        <section>
          <h2 className="mb-1 text-sm font-semibold">Goal</h2>
          <p className="break-words whitespace-pre-wrap">{description}</p>
        </section>
      )}
    </div>
  )
})

const RunLink = ({ runId }: { runId: string }) => (
  <Link to="/runs/$runId" params={{ runId }} className="text-accent-text hover:underline">
    Run {shortId(runId)}
  </Link>
)

function BudgetLine({ label, spent, reserved, limit, format }: { label: string; spent: number; reserved: number; limit: number | null | undefined; format: (value: number) => string }) {
  return (
    <div className="mb-2">
      <div className="mb-1 flex justify-between text-xs">
        <span>{label}</span>
        <span className="text-text-2">{formatSpent(spent, reserved, limit, format)}</span>
      </div>
      {limit != null && <Meter value={spent} limit={limit} label={`${label} spent of the budget`} />}
    </div>
  )
}
