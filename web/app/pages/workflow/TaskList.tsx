import { Status } from '~/ui/Badge'
import { classes } from '~/util/classes'
import { formatCompact } from '~/util/format'
import { layoutTasks } from './layout'
import { type ShownStatus, type Workflow, type WorkflowTask } from './workflow-query'

type Props = { workflow: Workflow; statuses: ReadonlyMap<string, ShownStatus>; selected: string | undefined; onSelect: (key: string) => void }

/** The tasks as a list in the order of their layers, for narrow windows and for those who prefer it. */
export function TaskList({ workflow, statuses, selected, onSelect }: Props) {
  const { layers } = layoutTasks(workflow.tasks.map(({ key, blockedBy }) => ({ id: key, blockedBy })))
  const byKey = new Map(workflow.tasks.map((task) => [task.key, task]))
  const spent = new Map(workflow.budget.byTask.map(({ key, spent: amount }) => [key, amount.tokens]))
  return (
    <ol aria-label="Tasks" className="min-h-0 flex-1 divide-y divide-line overflow-auto">
      {layers.flatMap((layer, number) =>
        layer.map((key) => {
          const task = byKey.get(key)
          return task && <Row key={key} task={task} layer={number + 1} status={statuses.get(key) ?? task.status} tokens={spent.get(key)} isSelected={key === selected} onSelect={onSelect} />
        }),
      )}
    </ol>
  )
}

function Row({ task, layer, status, tokens, isSelected, onSelect }: { task: WorkflowTask; layer: number; status: ShownStatus; tokens: number | undefined; isSelected: boolean; onSelect: (key: string) => void }) {
  return (
    <li className={classes('relative flex items-start gap-3 px-4 py-2.5 [content-visibility:auto]', isSelected ? 'bg-selected' : 'hover:bg-hover')}>
      <span title={`Layer ${layer}`} className="mt-0.5 w-5 shrink-0 text-right text-xs text-text-3">
        {layer}
      </span>
      <div className="min-w-0 flex-1">
        <button type="button" aria-pressed={isSelected} onClick={() => onSelect(task.key)} className="block max-w-full truncate text-left font-medium after:absolute after:inset-0">
          {task.title}
        </button>
        <p className="truncate text-xs text-text-2">
          {task.agent ?? 'agent chosen at start'}
          {task.attempts > 1 && ` · attempt ${task.attempts}`}
          {task.blockedBy.length > 0 && ` · after ${task.blockedBy.join(', ')}`}
        </p>
      </div>
      {tokens !== undefined && tokens > 0 && <span className="mt-0.5 hidden text-xs whitespace-nowrap text-text-2 sm:inline">{formatCompact(tokens)} tokens</span>}
      <Status status={status} />
    </li>
  )
}
