import { useQuery } from '@tanstack/react-query'
import { CalendarClock, Plus, Zap } from 'lucide-react'
import { useMemo } from 'react'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { useActions } from '~/util/actions'
import { DeleteTriggerDialog, RunNowDialog } from './ActionDialogs'
import { FiringsCard } from './FiringsCard'
import { TriggerDialog } from './TriggerDialog'
import { eventRows, fixedReason, scheduleRows, triggersQuery } from './triggers'
import { EventsTable, SchedulesTable } from './TriggerTables'

const parse = (raw: RawSearch) => ({
  dialog: oneOf(['new-schedule', 'new-event', 'edit', 'run', 'delete'], raw.dialog),
  trigger: raw.trigger || undefined,
  firings: oneOf(['pending', 'admitted', 'refused', 'skipped'], raw.firings),
  agent: raw.agent || undefined,
})

export function SchedulesPage() {
  const [search, change] = useUrlState(parse)
  const { allowed, reason } = useScope('agents:read')
  const writesAgents = useScope('agents:write')
  const invoke = useScope('agents:invoke')
  const query = useQuery({ ...triggersQuery, enabled: allowed })
  const agents = useQuery({ ...agentsQuery, enabled: allowed }).data?.items ?? []
  const createReason = writesAgents.allowed || invoke.allowed ? undefined : 'Your token has neither the scope agents:write nor agents:invoke.'
  useActions(
    useMemo(
      () => [
        { id: 'schedule-new', label: 'Create a schedule…', group: 'On this page', run: () => change({ dialog: 'new-schedule' }, { push: true }) },
        { id: 'event-trigger-new', label: 'Create an event trigger…', group: 'On this page', run: () => change({ dialog: 'new-event' }, { push: true }) },
      ],
      [change],
    ),
  )
  const close = () => change({ dialog: '', trigger: '' })
  const create = (
    <>
      <Button icon={<Zap aria-hidden size={14} />} disabledReason={createReason} onClick={() => change({ dialog: 'new-event' }, { push: true })}>Create an event trigger</Button>
      <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={createReason} onClick={() => change({ dialog: 'new-schedule' }, { push: true })}>Create a schedule</Button>
    </>
  )
  const schedules = scheduleRows(query.data?.schedules ?? [])
  const events = eventRows(query.data?.events ?? [])
  const chosen = [...schedules, ...events].find((one) => one.key === search.trigger)
  const table = {
    fixed: (one: (typeof schedules)[number]) => fixedReason(one, agents, { agents: writesAgents.reason, invoke: invoke.reason }),
    runReason: invoke.reason,
    onAct: (dialog: 'edit' | 'run' | 'delete', key: string) => change({ dialog, trigger: key }, { push: true }),
  }
  return (
    <>
      <PageHeader title="Schedules and triggers" description="What starts agents and workflows by itself: a time, or an event." actions={create} />
      {!allowed ? (
        <Panel><EmptyState title="You cannot see triggers.">{reason}</EmptyState></Panel>
      ) : (
        <div className="grid gap-4">
          <Card title="Schedules" flush>
            <Loaded query={query} what="The schedules could not be loaded." rows={3}>
              {() => (schedules.length > 0 ? <SchedulesTable rows={schedules} {...table} /> : <EmptyState icon={<CalendarClock aria-hidden size={18} />} title="Nothing is scheduled.">A schedule starts an agent or a workflow at fixed times, such as every working day at eight.</EmptyState>)}
            </Loaded>
          </Card>
          <Card title="Event triggers" flush>
            <Loaded query={query} what="The event triggers could not be loaded." rows={3}>
              {() => (events.length > 0 ? <EventsTable rows={events} {...table} /> : <EmptyState icon={<Zap aria-hidden size={18} />} title="Nothing waits for an event.">An event trigger starts an agent or a workflow when a document is ingested, or an object or relationship is written.</EmptyState>)}
            </Loaded>
          </Card>
          <FiringsCard status={search.firings} agent={search.agent} agents={agents} schedules={schedules} onChange={change} />
        </div>
      )}
      {(search.dialog === 'new-schedule' || search.dialog === 'new-event') && <TriggerDialog key={search.dialog} when={search.dialog === 'new-event' ? 'event' : 'schedule'} agents={agents} onClose={close} />}
      {search.dialog === 'edit' && chosen && <TriggerDialog trigger={chosen} when={chosen.schedule ? 'schedule' : 'event'} agents={agents} onClose={close} />}
      {search.dialog === 'run' && chosen && <RunNowDialog trigger={chosen} onClose={close} />}
      {search.dialog === 'delete' && chosen && <DeleteTriggerDialog trigger={chosen} agents={agents} onClose={close} />}
    </>
  )
}
