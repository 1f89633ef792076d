import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import type { Schemas } from '~/api/types'
import { TaskGraph } from '~/pages/workflow/TaskGraph'
import { Badge } from '~/ui/Badge'
import { WithCode } from '~/ui/WithCode'
import { capitalised } from '~/util/format'

/** What a dry run says: the tasks in their order, and which agent would get each of them, and why. */
export function PlanView({ plan }: { plan: Schemas['CheckedWorkflow'] }) {
  const [selected, setSelected] = useState<string>()
  const tasks = useMemo(() => plan.layers.flat(), [plan])
  const shown = useMemo(() => tasks.map((task) => ({ ...task, status: plan.first.includes(task.key) ? ('ready' as const) : ('pending' as const) })), [tasks, plan])
  if (tasks.length === 0) {
    return (
      <section aria-label="Plan" className="space-y-1 rounded-md bg-ok-soft px-3 py-2 text-ok">
        <p className="font-medium">The goal can be dispatched. There are no tasks to show yet.</p>
        <p>
          {/* Another tab, because this one has what was described and not yet dispatched. */}
          The agent{' '}
          <Link to="/agents/$agentId" params={{ agentId: plan.planner ?? 'task-planner' }} target="_blank" className="font-medium underline">
            {plan.planner ?? 'task-planner'}
          </Link>{' '}
          makes them after the dispatch, and the first of them start as soon as its plan is accepted. To see every task before anything starts, describe the tasks yourself under Tasks.
        </p>
      </section>
    )
  }
  return (
    <section aria-label="Plan" className="overflow-hidden rounded-lg border border-line">
      <TaskGraph tasks={shown} selected={selected} onSelect={setSelected} label="Plan. Arrow keys select." className="h-64 border-b border-line bg-surface" />
      <ol className="max-h-56 divide-y divide-line overflow-auto">
        {plan.layers.flatMap((layer, number) =>
          layer.map((task) => (
            <li key={task.key} className={task.key === selected ? 'bg-selected px-3 py-2' : 'px-3 py-2'}>
              <p className="flex flex-wrap items-center gap-x-2">
                <span className="text-xs text-text-3">{number + 1}</span>
                <button type="button" onClick={() => setSelected(task.key)} className="rounded-sm font-medium hover:underline">
                  {task.title}
                </button>
                <Badge tone={task.agent ? 'run' : 'warn'}>{task.agent ?? 'No agent yet'}</Badge>
                {!task.clear && <span className="text-xs text-text-2">a close choice</span>}
              </p>
              <p className="pl-4 text-xs break-words text-text-2">
                {task.blockedBy.length > 0 ? `After ${task.blockedBy.map((key) => tasks.find((one) => one.key === key)?.title ?? key).join(', ')}. ` : plan.first.includes(task.key) && 'Starts at once. '}
                <WithCode text={capitalised(task.reason)} />
              </p>
            </li>
          )),
        )}
      </ol>
    </section>
  )
}
