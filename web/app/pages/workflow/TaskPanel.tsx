import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { X } from 'lucide-react'
import type { ReactNode } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Badge, Status } from '~/ui/Badge'
import { Button, IconButton } from '~/ui/Button'
import { JsonView } from '~/ui/JsonView'
import { KeyValue } from '~/ui/KeyValue'
import { Money, RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { capitalised, formatCount, shortId } from '~/util/format'
import { describe } from './decisions'
import { TASK_ACTIONS, TaskDialog } from './TaskDialog'
import { TaskDiscussions } from './TaskDiscussions'
import { useChangeReason } from './use-change-reason'
import { isClosed, type ShownStatus, whyItWaits, type Workflow, type WorkflowEvent, type WorkflowTask } from './workflow-query'

type Props = { workflow: Workflow; task: WorkflowTask; status: ShownStatus; events: readonly WorkflowEvent[]; onClose: () => void; onSelect: (key: string) => void }

/** One task: why, by whom, how often, what came of it, and what a person can do about it. */
export function TaskPanel({ workflow, task, status, events, onClose, onSelect }: Props) {
  const own = events.filter((event) => event.taskId === task.id)
  const waits = whyItWaits(task, workflow.tasks)
  const chosen = own.findLast((event) => event.type === 'task_started')
  const spent = workflow.budget.byTask.find(({ taskId }) => taskId === task.id)?.spent
  const detail = useQuery({
    queryKey: [...keys.tasks, 'one', task.id],
    queryFn: ({ signal }) => unwrap(api.GET('/api/coordination/tasks/{taskId}', { params: { path: { taskId: task.id } }, signal })),
  }).data
  const dependents = workflow.tasks.filter(({ blockedBy }) => blockedBy.includes(task.key))
  const isDiscussed = task.requiresCollaboration || own.some(({ type }) => type === 'discussion_started')
  const verdicts = own.filter(({ data }) => typeof data.verdict === 'string')
  return (
    <section aria-label={`Task ${task.key}`} className="flex min-h-0 flex-1 flex-col">
      <header className="flex items-start gap-2 border-b border-line px-4 py-3">
        <div className="min-w-0 flex-1">
          <h2 className="text-base font-semibold break-words">{task.title}</h2>
          <div className="mt-1 flex flex-wrap items-center gap-2">
            <Status status={status} />
            <code className="font-mono text-xs text-text-2">{task.key}</code>
          </div>
        </div>
        <IconButton size="sm" label="Close the task" onClick={onClose}>
          <X aria-hidden size={14} />
        </IconButton>
      </header>
      <div className="min-h-0 flex-1 space-y-4 overflow-auto px-4 py-3">
        <Actions workflow={workflow} task={task} />
        {waits && (
          <Part title="Why it waits">
            <p><WithCode text={capitalised(waits)} /></p>
          </Part>
        )}
        {chosen && (
          <Part title={`Why ${String(chosen.data.agent ?? 'this agent')}`}>
            <p className="break-words"><WithCode text={describe(chosen).why} /></p>
          </Part>
        )}
        {detail?.failureContext && (
          <Part title="What went wrong">
            <p className="rounded-md bg-fail-soft px-3 py-2 break-words whitespace-pre-wrap text-fail"><WithCode text={detail.failureContext} /></p>
          </Part>
        )}
        {task.summary && (
          <Part title="Result">
            <p className="break-words whitespace-pre-wrap">{task.summary}</p>
            {detail?.output && typeof detail.output === 'object' && <JsonView value={detail.output} />}
          </Part>
        )}
        {detail?.description && (
          <Part title="Instruction">
            <p className="break-words whitespace-pre-wrap text-text-2">{detail.description}</p>
          </Part>
        )}
        <Attempts task={task} own={own} />
        {verdicts.length > 0 && (
          <Part title="Verdicts">
            <ul className="space-y-1.5">
              {verdicts.map((event) => (
                <li key={event.seq}>
                  <Badge tone={/^(PASS|APPROVE|COMMENT)/.test(String(event.data.verdict)) ? 'ok' : 'warn'}>{String(event.data.verdict)}</Badge> <span className="text-text-2"><WithCode text={describe(event).why} /></span>
                </li>
              ))}
            </ul>
          </Part>
        )}
        {isDiscussed && (
          <Part title="Discussion">
            <TaskDiscussions taskId={task.id} workflowId={workflow.id} />
          </Part>
        )}
        <Part title="Facts">
          <KeyValue
            items={[
              ['Agent', task.agent ?? 'Chosen when it starts'],
              ['Priority', capitalised(task.priority)],
              ['Kind', task.kind || undefined],
              ['Judges', task.verdict === 'none' ? undefined : capitalised(task.verdict)],
              ['After', task.blockedBy.length > 0 && <Keys key="after" keys={task.blockedBy} onSelect={onSelect} />],
              ['Before', dependents.length > 0 && <Keys key="before" keys={dependents.map(({ key }) => key)} onSelect={onSelect} />],
              ['Attempts', formatCount(task.attempts)],
              // A person may ask for an attempt beyond these.
              ['Retries allowed', formatCount(task.maxRetries)],
              ['Tokens', spent && formatCount(spent.tokens)],
              ['Cost', spent && <Money key="cost" usd={spent.usd} />],
              [
                'Object',
                <Link key="object" to="/graph/objects/$objectId" params={{ objectId: task.id }} className="text-accent-text hover:underline">
                  SpecTask {shortId(task.id)}
                </Link>,
              ],
            ]}
          />
        </Part>
      </div>
    </section>
  )
}

const Part = ({ title, children }: { title: string; children: ReactNode }) => (
  <section>
    <h3 className="mb-1 text-xs font-medium text-text-2">{title}</h3>
    {children}
  </section>
)

const Keys = ({ keys: names, onSelect }: { keys: readonly string[]; onSelect: (key: string) => void }) => (
  <span className="flex flex-wrap gap-x-2">
    {names.slice(0, 20).map((name) => (
      <button key={name} type="button" onClick={() => onSelect(name)} className="rounded-sm font-mono text-xs text-accent-text hover:underline">
        {name}
      </button>
    ))}
    {names.length > 20 && <span className="text-text-2">and {names.length - 20} more</span>}
  </span>
)

const ENDS: Record<string, string> = { task_completed: 'completed', task_failed: 'failed', task_retried: 'failed', task_paused: 'paused', task_verdict: 'completed' }

/** The runs of the task in their order, each with what became of it. */
function Attempts({ task, own }: { task: WorkflowTask; own: readonly WorkflowEvent[] }) {
  if (task.runIds.length === 0) return null
  return (
    <Part title={task.runIds.length === 1 ? 'Attempt' : `${task.runIds.length} attempts`}>
      <ol className="divide-y divide-line rounded-md border border-line">
        {task.runIds.map((runId, index) => {
          const ofRun = own.filter((event) => event.runId === runId)
          const start = ofRun.find(({ type }) => type === 'task_started' || type === 'task_resumed')
          const end = ofRun.findLast(({ type }) => type in ENDS)
          const isLast = index === task.runIds.length - 1
          const status = end ? ENDS[end.type]! : isLast ? task.status : 'completed'
          return (
            <li key={runId} className="px-3 py-1.5">
              <div className="flex items-center gap-2">
                <Link to="/runs/$runId" params={{ runId }} className="min-w-0 truncate font-medium text-accent-text hover:underline">
                  {index + 1}. {String(start?.data.agent ?? task.agent ?? 'Run')}
                </Link>
                {start && <RelativeTime at={start.at} className="text-xs text-text-2" />}
                <span className="ml-auto">
                  <Status status={status} />
                </span>
              </div>
              {end && end.type !== 'task_completed' && <p className="line-clamp-3 text-xs break-words text-text-2"><WithCode text={describe(end).why} /></p>}
            </li>
          )
        })}
      </ol>
    </Part>
  )
}

/** What the status of the task and of its workflow allows, and why not. */
function Actions({ workflow, task }: { workflow: Workflow; task: WorkflowTask }) {
  const { dialog, open, close } = useUrlDialog(TASK_ACTIONS)
  const refused = useChangeReason(workflow.status)
  const closed = isClosed(workflow.status) ? `The workflow is ${workflow.status}: it accepts no more changes.` : undefined
  const done = task.status === 'completed' ? 'The task is completed.' : undefined
  const reasons: Record<(typeof TASK_ACTIONS)[number], string | undefined> = {
    retry: refused ?? closed ?? done ?? (task.status === 'pending' && !task.waiting ? 'The task has not been tried yet.' : undefined),
    reassign: refused ?? closed ?? done,
    skip: refused ?? closed ?? done ?? (task.status === 'skipped' ? 'The task is skipped already.' : undefined),
  }
  return (
    <div className="flex flex-wrap gap-2">
      {TASK_ACTIONS.map((one) => (
        <Button key={one} size="sm" disabledReason={reasons[one]} onClick={() => open(one)}>
          {capitalised(one)}…
        </Button>
      ))}
      {dialog && <TaskDialog key={dialog} action={dialog} task={task} workflowId={workflow.id} disabledReason={reasons[dialog]} onClose={close} />}
    </div>
  )
}
