import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { Ban, List, RotateCcw, Waypoints } from 'lucide-react'
import { memo, useCallback, useMemo } from 'react'
import { useScope } from '~/api/session'
import { useMinWidths } from '~/hooks/use-min-width'
import { oneOf, type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
import { Rehearsal, Status } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { LongTitle, PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { useActions } from '~/util/actions'
import { classes } from '~/util/classes'
import { formatCompact, formatMoney } from '~/util/format'
import { DecisionLog } from './DecisionLog'
import { EscalationCard } from './EscalationCard'
import { TaskGraph } from './TaskGraph'
import { TaskList } from './TaskList'
import { TaskPanel } from './TaskPanel'
import { useChangeReason } from './use-change-reason'
import { useWorkflowEvents } from './use-workflow-events'
import { BudgetDialog, CancelDialog, ResumeDialog } from './WorkflowDialogs'
import { WorkflowFacts } from './WorkflowFacts'
import { countTasks, doneText, isActive, isClosed, shownStatus, titleOf, type Workflow, workflowQuery } from './workflow-query'

const VIEWS = ['graph', 'list'] as const
const parse = (raw: RawSearch) => ({ task: raw.task || undefined, view: oneOf(VIEWS, raw.view) })
const DIALOGS = ['budget', 'cancel', 'resume'] as const
const route = getRouteApi('/workflows/$workflowId')

export function WorkflowPage() {
  const { workflowId } = route.useParams()
  const { allowed, reason } = useScope('agents:read')
  const { data, error, refetch } = useQuery({ ...workflowQuery(workflowId), enabled: allowed })
  if (data) return <Loaded key={workflowId} workflow={data} />
  return (
    <>
      <PageHeader title="Workflow" above={<Link to="/workflows">Workflows</Link>} />
      {!allowed ? <EmptyState title="You cannot see workflows.">{reason}</EmptyState> : error ? <ErrorState error={error} what="The workflow could not be loaded." onRetry={() => void refetch()} /> : <SkeletonRows rows={8} />}
    </>
  )
}

function Loaded({ workflow }: { workflow: Workflow }) {
  const [search, change] = useUrlState(parse)
  const isOver = isClosed(workflow.status) || workflow.status === 'failed'
  const { events } = useWorkflowEvents(workflow.id, isOver)
  const widths = useMinWidths()
  const view = search.view ?? (widths.md ? 'graph' : 'list')
  const select = useCallback((task: string | undefined) => change({ task }), [change])
  const statuses = useMemo(() => {
    const plain = new Map(workflow.tasks.map(({ key, status }) => [key, status]))
    return new Map(workflow.tasks.map((task) => [task.key, shownStatus(task, plain, workflow.escalation?.taskId)]))
  }, [workflow])
  const graphTasks = useMemo(() => workflow.tasks.map((task) => ({ ...task, status: statuses.get(task.key)! })), [workflow, statuses])
  const task = workflow.tasks.find(({ key }) => key === search.task)
  const title = titleOf(workflow)

  return (
    <>
      <PageHeader
        title={title}
        above={<Link to="/workflows" className="hover:underline">Workflows</Link>}
        heading={<LongTitle text={title} />}
        description={<Facts workflow={workflow} />}
        actions={<Actions workflow={workflow} />}
      />
      {workflow.status === 'escalated' && <EscalationCard workflow={workflow} />}
      <div className="mb-4 flex flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card lg:h-[max(440px,calc(100dvh-330px))] lg:flex-row">
        <div className="flex min-h-0 min-w-0 flex-1 flex-col">
          <div role="toolbar" aria-label="View" className="flex items-center gap-1 border-b border-line px-3 py-1.5">
            <span className="mr-auto text-xs text-text-2">
              Tasks: {doneText(countTasks(workflow.tasks))}
            </span>
            <Button size="sm" variant="ghost" aria-pressed={view === 'graph'} className={classes(view === 'graph' && 'bg-selected text-text!')} icon={<Waypoints aria-hidden size={14} />} onClick={() => change({ view: 'graph' })}>
              Picture
            </Button>
            <Button size="sm" variant="ghost" aria-pressed={view === 'list'} className={classes(view === 'list' && 'bg-selected text-text!')} icon={<List aria-hidden size={14} />} onClick={() => change({ view: 'list' })}>
              List
            </Button>
          </div>
          {workflow.tasks.length === 0 ? (
            <EmptyState title={workflow.status === 'planning' ? 'The tasks are being planned.' : 'There are no tasks.'}>{workflow.status === 'planning' && 'They appear here as soon as the planner has written them.'}</EmptyState>
          ) : view === 'graph' ? (
            <TaskGraph tasks={graphTasks} selected={task?.key} onSelect={select} label="Tasks. Arrow keys select." className="h-80 lg:h-auto lg:flex-1" />
          ) : (
            <TaskList workflow={workflow} statuses={statuses} selected={task?.key} onSelect={select} />
          )}
        </div>
        <div className="flex min-h-0 flex-col border-line max-lg:border-t lg:w-[380px] lg:shrink-0 lg:border-l">
          {task ? <TaskPanel key={task.id} workflow={workflow} task={task} status={statuses.get(task.key)!} events={events} onClose={() => select(undefined)} onSelect={select} /> : <WorkflowFacts workflow={workflow} />}
        </div>
      </div>
      <DecisionLog events={events} tasks={workflow.tasks} selected={task} startedAt={workflow.createdAt} onSelect={select} isLive={!isOver} />
    </>
  )
}

// Events arrive far more often than the workflow changes: what shows none of them is not drawn again for them.
const Facts = memo(({ workflow }: { workflow: Workflow }) => {
  const { spent, limit } = workflow.budget
  return (
    <span className="mt-1.5 flex flex-wrap items-center gap-x-3 gap-y-1">
      <Status status={workflow.status} />
      {workflow.rehearsal && <Rehearsal />}
      <span>
        {doneText(countTasks(workflow.tasks))}
      </span>
      <span>
        {formatCompact(spent.tokens)} {limit.tokens != null && `of ${formatCompact(limit.tokens)} `}tokens
      </span>
      <span>
        {formatMoney(spent.usd)} {limit.usd != null && `of ${formatMoney(limit.usd)}`}
      </span>
      <RelativeTime at={workflow.createdAt} />
    </span>
  )
})

const Actions = memo(({ workflow }: { workflow: Workflow }) => {
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const scope = useScope('agents:invoke')
  const closed = isClosed(workflow.status) ? `The workflow is ${workflow.status}.` : undefined
  const atWork = isActive(workflow.status)
  const cannotResume = useChangeReason(workflow.status) ?? closed
  const cannotCancel = scope.reason ?? closed ?? (workflow.status === 'failed' ? 'The workflow has ended.' : undefined)
  useActions(
    useMemo(
      () => [
        { ...(atWork ? { id: 'workflow-budget', label: 'Change the budget of this workflow…', run: () => open('budget') } : { id: 'workflow-resume', label: 'Resume this workflow…', run: () => open('resume') }), group: 'On this page', disabledReason: cannotResume },
        { id: 'workflow-cancel', label: 'Cancel this workflow…', group: 'On this page', disabledReason: cannotCancel, run: () => open('cancel') },
      ],
      [atWork, cannotCancel, cannotResume, open],
    ),
  )
  return (
    <>
      {atWork ? (
        <Button disabledReason={cannotResume} onClick={() => open('budget')}>
          Change the budget…
        </Button>
      ) : (
        <Button icon={<RotateCcw aria-hidden size={14} />} disabledReason={cannotResume} onClick={() => open('resume')}>
          Resume, add budget…
        </Button>
      )}
      <Button icon={<Ban aria-hidden size={14} />} disabledReason={cannotCancel} onClick={() => open('cancel')}>
        Cancel…
      </Button>
      {dialog === 'cancel' && <CancelDialog workflow={workflow} disabledReason={cannotCancel} onClose={close} />}
      {dialog === 'budget' && <BudgetDialog workflow={workflow} disabledReason={cannotResume ?? (atWork ? undefined : 'The workflow has stopped: resume it with another budget.')} onClose={close} />}
      {dialog === 'resume' && <ResumeDialog workflow={workflow} disabledReason={cannotResume ?? (atWork ? 'The workflow is at work.' : undefined)} onClose={close} />}
    </>
  )
})
