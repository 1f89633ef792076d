import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, useMemo, useRef } from 'react'
import { Status } from '~/ui/Badge'
import { classes } from '~/util/classes'
import { formatCompact } from '~/util/format'
import { layoutOf } from './layout'
import { type ShownStatus, type Workflow, type WorkflowTask } from './workflow-query'

type Props = { workflow: Workflow; statuses: ReadonlyMap<string, ShownStatus>; selected: string | undefined; onSelect: (key: string) => void }
type Entry = { task: WorkflowTask; layer: number; status: ShownStatus; tokens: number | undefined }

/** Up to this many rows all of them are in the document; of more only those that are seen. */
const FEW = 80
const ROW = 57

/** The tasks as a list in the order of their layers, for narrow windows and for those who prefer it. */
export const TaskList = memo(({ workflow, statuses, selected, onSelect }: Props) => {
  const entries = useMemo(() => {
    const byKey = new Map(workflow.tasks.map((task) => [task.key, task]))
    const spent = new Map(workflow.budget.byTask.map(({ key, spent: amount }) => [key, amount.tokens]))
    return layoutOf(workflow.tasks).layers.flatMap((layer, number) =>
      layer.flatMap((key): Entry[] => {
        const task = byKey.get(key)
        return task ? [{ task, layer: number + 1, status: statuses.get(key) ?? task.status, tokens: spent.get(key) }] : []
      }),
    )
  }, [workflow, statuses])
  if (entries.length > FEW) return <LongList entries={entries} selected={selected} onSelect={onSelect} />
  return (
    <ol aria-label="Tasks" className="min-h-0 flex-1 divide-y divide-line overflow-auto">
      {entries.map((entry) => (
        <li key={entry.task.key}>
          <Row {...entry} isSelected={entry.task.key === selected} onSelect={onSelect} />
        </li>
      ))}
    </ol>
  )
})

function LongList({ entries, selected, onSelect }: { entries: Entry[]; selected: string | undefined; onSelect: (key: string) => void }) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({ count: entries.length, getScrollElement: () => scroller.current, estimateSize: () => ROW, overscan: 6 })
  return (
    <div ref={scroller} className="min-h-0 flex-1 overflow-auto max-lg:h-[70dvh] max-lg:flex-none">
      <ol aria-label="Tasks" className="relative" style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const entry = entries[index]!
          return (
            <li key={entry.task.key} aria-posinset={index + 1} aria-setsize={entries.length} ref={virtualizer.measureElement} data-index={index} className="absolute inset-x-0 top-0 border-b border-line" style={{ transform: `translateY(${start}px)` }}>
              <Row {...entry} isSelected={entry.task.key === selected} onSelect={onSelect} />
            </li>
          )
        })}
      </ol>
    </div>
  )
}

const Row = memo(({ task, layer, status, tokens, isSelected, onSelect }: Entry & { isSelected: boolean; onSelect: (key: string) => void }) => {
  return (
    <div className={classes('relative flex items-start gap-3 px-4 py-2.5', isSelected ? 'bg-selected' : 'hover:bg-hover')}>
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
    </div>
  )
})
