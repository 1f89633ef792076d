import { Link } from '@tanstack/react-router'
import { memo, useMemo, useState } from 'react'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { SkeletonRows } from '~/ui/Skeleton'
import { Switch } from '~/ui/Field'
import { WithCode } from '~/ui/WithCode'
import { classes } from '~/util/classes'
import { formatAbsolute, formatCount, formatDuration } from '~/util/format'
import { describe } from './decisions'
import type { WorkflowEvent, WorkflowTask } from './workflow-query'

const STEP = 100

type Props = { events: readonly WorkflowEvent[]; tasks: readonly WorkflowTask[]; selected: WorkflowTask | undefined; startedAt: string; onSelect: (key: string) => void; isLive: boolean }

/** Every decision of the workflow, the newest first, with the reason that was recorded with it. */
export function DecisionLog({ events, tasks, selected, startedAt, onSelect, isLive }: Props) {
  const [onlySelected, setOnlySelected] = useState(false)
  const [shown, setShown] = useState(STEP)
  const byId = useMemo(() => new Map(tasks.map((task) => [task.id, task])), [tasks])
  const wanted = onlySelected && selected ? events.filter((event) => event.taskId === selected.id) : events
  const newest = wanted.slice(-shown).reverse()
  return (
    <Card
      title={
        <>
          Decisions <span className="font-normal text-text-2">{formatCount(wanted.length)}</span>
        </>
      }
      flush
      action={
        <div className="flex items-center gap-3 text-xs text-text-2">
          {isLive && <span className="hidden sm:inline">Live, the newest first</span>}
          {selected && <Switch label={<span className="text-xs">Only “{selected.key}”</span>} checked={onlySelected} onChange={setOnlySelected} />}
        </div>
      }
    >
      {events.length === 0 ? (
        <SkeletonRows rows={4} />
      ) : (
        <ol aria-label="Decisions" className="divide-y divide-line">
          {newest.map((event) => (
            <Row key={event.seq} event={event} taskKey={event.taskId ? byId.get(event.taskId)?.key : undefined} startedAt={startedAt} onSelect={onSelect} />
          ))}
        </ol>
      )}
      {wanted.length > shown && (
        <div className="p-3 text-center">
          <Button size="sm" onClick={() => setShown(shown + STEP)}>
            Show earlier decisions
          </Button>
        </div>
      )}
    </Card>
  )
}

const Row = memo(({ event, taskKey, startedAt, onSelect }: { event: WorkflowEvent; taskKey: string | undefined; startedAt: string; onSelect: (key: string) => void }) => {
  const { what, why, tone } = describe(event)
  return (
    <li className="grid grid-cols-[64px_8px_minmax(0,1fr)_auto] items-baseline gap-x-3 px-4 py-2 [contain-intrinsic-size:auto_36px] [content-visibility:auto]">
      <time dateTime={event.at} title={formatAbsolute(event.at)} className="text-right text-xs whitespace-nowrap text-text-2">
        {formatDuration(Math.max(0, Date.parse(event.at) - Date.parse(startedAt)))}
      </time>
      <span aria-hidden className={classes('size-2 rounded-full', `bg-${tone}-fill`)} />
      <div className="max-w-3xl min-w-0">
        <p>
          {taskKey && (
            <button type="button" onClick={() => onSelect(taskKey)} className="mr-2 max-w-full truncate rounded-sm align-bottom font-mono text-xs text-accent-text hover:underline">
              {taskKey}
            </button>
          )}
          <span className="font-medium">{what}</span>
        </p>
        {why && <p className="line-clamp-3 text-xs break-words text-text-2"><WithCode text={why} /></p>}
      </div>
      {event.runId && (
        <Link to="/runs/$runId" params={{ runId: event.runId }} className="rounded-sm text-xs text-accent-text hover:underline">
          Run
        </Link>
      )}
    </li>
  )
})
