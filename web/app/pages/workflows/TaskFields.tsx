import { Plus, Trash2 } from 'lucide-react'
import { Button, IconButton } from '~/ui/Button'
import { Field, Input, Select, Textarea } from '~/ui/Field'
import { classes } from '~/util/classes'
import { type DraftTask, keyOf, newTask, problemAt, type Problems } from './draft'

type Props = { tasks: DraftTask[]; onChange: (tasks: DraftTask[]) => void; agents: string[]; problems: Problems }

/** The tasks as forms, each with what the server says is wrong at its field. */
export function TaskFields({ tasks, onChange, agents, problems }: Props) {
  const update = (id: number, change: Partial<DraftTask>) => onChange(tasks.map((task) => (task.id === id ? { ...task, ...change } : task)))
  const add = () => {
    const before = tasks.at(-1)
    onChange([...tasks, newTask({ blockedBy: before && keyOf(before) ? [keyOf(before)] : [] })])
  }
  return (
    <div className="space-y-3">
      {tasks.map((task, index) => (
        <One
          key={task.id}
          task={task}
          index={index}
          others={tasks.filter((other) => other !== task && keyOf(other)).map(keyOf)}
          agents={agents}
          problems={problems}
          onChange={(change) => update(task.id, change)}
          onRemove={tasks.length > 1 ? () => onChange(tasks.filter((other) => other !== task).map((other) => ({ ...other, blockedBy: other.blockedBy.filter((key) => key !== keyOf(task)) }))) : undefined}
        />
      ))}
      <Button size="sm" icon={<Plus aria-hidden size={14} />} onClick={add}>
        Add a task
      </Button>
    </div>
  )
}

type OneProps = { task: DraftTask; index: number; others: string[]; agents: string[]; problems: Problems; onChange: (change: Partial<DraftTask>) => void; onRemove: (() => void) | undefined }

function One({ task, index, others, agents, problems, onChange, onRemove }: OneProps) {
  const problem = (field: string) => problemAt(problems, `tasks[${index}].${field}`)
  const after = [...new Set([...others, ...task.blockedBy])]
  const toggle = (key: string) => onChange({ blockedBy: task.blockedBy.includes(key) ? task.blockedBy.filter((one) => one !== key) : [...task.blockedBy, key] })
  return (
    <fieldset className="rounded-lg border border-line p-3">
      <legend className="px-1 text-xs font-medium text-text-2">Task {index + 1}</legend>
      <div className="grid gap-3 sm:grid-cols-[minmax(0,2fr)_minmax(0,1fr)_minmax(0,1fr)_auto]">
        <Field label="Title" problem={problem('title')}>
          {(ids) => <Input {...ids} value={task.title} onChange={(event) => onChange({ title: event.target.value })} />}
        </Field>
        <Field label="Key" problem={problem('key')}>
          {(ids) => <Input {...ids} value={task.key} placeholder={keyOf(task)} onChange={(event) => onChange({ key: event.target.value })} className="font-mono text-xs!" />}
        </Field>
        <Field label="Agent" problem={problem('assignedAgent')}>
          {(ids) => <Select {...ids} value={task.agent} onChange={(event) => onChange({ agent: event.target.value })} options={[{ value: '', label: 'Chosen automatically' }, ...agents.map((name) => ({ value: name, label: name }))]} />}
        </Field>
        <div className="flex items-end">
          <IconButton label={`Remove task ${index + 1}`} disabledReason={onRemove ? undefined : 'A workflow needs a task.'} onClick={onRemove}>
            <Trash2 aria-hidden size={14} />
          </IconButton>
        </div>
        <Field label="Instruction" problem={problem('description')} className="sm:col-span-4">
          {(ids) => <Textarea {...ids} rows={2} value={task.description} onChange={(event) => onChange({ description: event.target.value })} />}
        </Field>
      </div>
      {after.length > 0 && (
        <div role="group" aria-label={`Task ${index + 1} starts after`} className="mt-3 flex flex-wrap items-center gap-1.5">
          <span className="text-xs font-medium text-text-2">After</span>
          {after.map((key) => {
            const isOn = task.blockedBy.includes(key)
            return (
              <button key={key} type="button" aria-pressed={isOn} onClick={() => toggle(key)} className={classes('rounded-full border px-2 font-mono text-xs', isOn ? 'border-accent bg-accent-soft text-accent-text' : 'border-line text-text-2 hover:bg-hover')}>
                {key}
              </button>
            )
          })}
        </div>
      )}
      {problem('blockedBy') && <p className="mt-1.5 text-xs text-danger-text">{problem('blockedBy')}</p>}
    </fieldset>
  )
}
