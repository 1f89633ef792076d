import { Link } from '@tanstack/react-router'
import { CircleCheck, CirclePause, Hourglass, MoreHorizontal, Play, TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { Switch } from '~/ui/Field'
import { type ListColumn, ListTable } from '~/ui/ListTable'
import { Menu } from '~/ui/Menu'
import { RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { formatAbsolute } from '~/util/format'
import { describeEvent, EVENTS, type Lacking, type Schedule, switchReason, type Trigger } from './triggers'

type Act = 'edit' | 'run' | 'delete'
type Props = {
  rows: Trigger[]
  /** The key of the trigger that a link led to. */
  current: string | undefined
  fixed: (trigger: Trigger, change: 'edit' | 'delete') => string | undefined
  lacking: Lacking
  onAct: (act: Act, key: string) => void
  onEnable: (trigger: Trigger, enabled: boolean) => void
}

const name: ListColumn<Trigger> = {
  key: 'name',
  className: 'min-w-32',
  head: 'Starts',
  cell: (one) => (
    <>
      {one.starts === 'agent' ? (
        <Link to="/agents/$agentId" params={{ agentId: one.agentName }} className="font-medium wrap-anywhere hover:underline">{one.title}</Link>
      ) : (
        <span className="font-medium wrap-anywhere">{one.title}</span>
      )}
      <p className="text-xs text-text-2">
        {one.starts === 'workflow' ? (one.dispatch?.tasks ? `Workflow of ${one.dispatch.tasks.length} ${one.dispatch.tasks.length === 1 ? 'task' : 'tasks'}` : 'Workflow with a planner') : one.title === one.agentName ? 'Agent' : `Agent ${one.agentName}`}
        {one.product && ` · ${one.product}`}
      </p>
    </>
  ),
}

const actions = ({ fixed, lacking, onAct, onEnable }: Props): ListColumn<Trigger> => ({
  key: 'actions',
  head: <span className="sr-only">Actions</span>,
  align: 'end',
  className: 'whitespace-nowrap',
  cell: (one) => {
    return (
      <span className="inline-flex items-center gap-1">
        {one.schedule && <Button size="sm" icon={<Play aria-hidden size={12} />} aria-label={`Run now… ${one.title}`} disabledReason={lacking.invoke} onClick={() => onAct('run', one.key)} className="max-sm:hidden">Run now…</Button>}
        <Menu
          label={`Actions of ${one.title}`}
          trigger={<Button variant="ghost" size="sm" aria-label={`Actions of ${one.title}`} icon={<MoreHorizontal aria-hidden size={16} />} />}
          items={[
            ...(one.schedule
              ? [
                  { label: 'Run now…', onSelect: () => onAct('run', one.key), disabledReason: lacking.invoke },
                  { label: one.schedule.enabled ? 'Pause' : 'Resume', onSelect: () => onEnable(one, !one.schedule?.enabled), disabledReason: switchReason(one.schedule, lacking) },
                ]
              : []),
            { label: 'Edit…', onSelect: () => onAct('edit', one.key), disabledReason: fixed(one, 'edit') },
            { label: 'Delete…', onSelect: () => onAct('delete', one.key), disabledReason: fixed(one, 'delete') },
          ]}
        />
      </span>
    )
  },
})

export function SchedulesTable(props: Props) {
  return (
    <ListTable
      label="Schedules"
      rows={props.rows}
      current={props.current}
      rowKey={(one) => one.key}
      columns={[
        name,
        { key: 'cron', head: 'When', from: 'sm', below: true, cell: (one) => <><code className="font-mono text-xs">{one.schedule?.cron}</code><p className="text-xs text-text-2">{one.schedule?.timeZone}</p></> },
        { key: 'state', head: 'State', from: 'md', below: true, cell: (one) => one.schedule && <State schedule={one.schedule} enable={<Switch hideLabel label={`${one.title} is active`} checked={one.schedule.enabled} disabledReason={switchReason(one.schedule, props.lacking)} onChange={(enabled) => props.onEnable(one, enabled)} />} /> },
        { key: 'next', head: 'Next', cell: (one) => <When at={one.schedule?.nextAt} none={one.schedule?.enabled === false ? 'Paused' : 'Never'} /> },
        { key: 'last', head: 'Last', from: 'sm', cell: (one) => one.schedule && <Last schedule={one.schedule} /> },
        actions(props),
      ]}
    />
  )
}

export function EventsTable(props: Props) {
  return (
    <ListTable
      label="Event triggers"
      rows={props.rows}
      rowKey={(one) => one.key}
      columns={[
        name,
        { key: 'event', head: 'When', cell: (one) => one.event && <>{EVENTS[one.event.event]}<p className="text-xs break-words text-text-2">{describeEvent(one.event)}</p></> },
        { key: 'wait', head: 'Waits for more', from: 'md', cell: (one) => (one.event?.coalesceSeconds ? `${one.event.coalesceSeconds} s` : 'No') },
        { key: 'depth', head: 'Chain', from: 'lg', cell: (one) => `At most ${one.event?.maxDepth} deep` },
        actions(props),
      ]}
    />
  )
}

/** The state of a schedule, after the switch that pauses it. */
function State({ schedule, enable }: { schedule: Schedule; enable: ReactNode }) {
  return <div className="inline-flex items-center gap-2 align-middle">{enable}<div><StateBadge schedule={schedule} /></div></div>
}

function StateBadge({ schedule }: { schedule: Schedule }) {
  if (schedule.error) {
    return <><Badge tone="fail" icon={<TriangleAlert aria-hidden size={12} />}>Suspended</Badge><p className="mt-1 max-w-xs text-xs text-fail"><WithCode text={schedule.error} /></p></>
  }
  if (!schedule.enabled) return <Badge tone="pause" icon={<CirclePause aria-hidden size={12} />}>Paused</Badge>
  if (schedule.waitingSince) return <Badge icon={<Hourglass aria-hidden size={12} />}>Waits for the queue</Badge>
  return <Badge tone="ok" icon={<CircleCheck aria-hidden size={12} />}>Active</Badge>
}

function When({ at, none }: { at: string | null | undefined; none: string }) {
  if (!at) return <span className="text-text-2">{none}</span>
  return <><RelativeTime at={at} /><p className="text-xs text-text-2">{formatAbsolute(at).replace(/:\d\d$/, '')}</p></>
}

function Last({ schedule }: { schedule: Schedule }) {
  if (!schedule.lastAt) return <span className="text-text-2">Not yet</span>
  const time = <RelativeTime at={schedule.lastAt} />
  return (
    <>
      {time}
      <p className="text-xs">
        {schedule.lastRunId && <Link to="/runs/$runId" params={{ runId: schedule.lastRunId }} className="text-accent-text underline">Run</Link>}
        {schedule.lastWorkflowId && <Link to="/workflows/$workflowId" params={{ workflowId: schedule.lastWorkflowId }} className="text-accent-text underline">Workflow</Link>}
      </p>
    </>
  )
}
