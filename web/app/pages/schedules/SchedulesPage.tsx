import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { CalendarClock, Plus, Zap } from 'lucide-react'
import { useMemo } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { EmptyState } from '~/ui/EmptyState'
import { InlineError } from '~/ui/ErrorState'
import { Loaded } from '~/ui/Loaded'
import { PageHeader } from '~/ui/PageHeader'
import { Panel } from '~/ui/Panel'
import { toast } from '~/ui/toast'
import { useActions } from '~/util/actions'
import { DeleteTriggerDialog, RunNowDialog } from './ActionDialogs'
import { FiringsCard } from './FiringsCard'
import { TriggerDialog } from './TriggerDialog'
import { eventRows, fixedReason, scheduleRows, type Trigger, triggersQuery } from './triggers'
import { EventsTable, SchedulesTable } from './TriggerTables'

const parse = (raw: RawSearch) => ({
  dialog: oneOf(['new-schedule', 'new-event', 'edit', 'run', 'delete'], raw.dialog),
  trigger: raw.trigger || undefined,
  /** The schedule that a run names as its origin. */
  item: raw.item || undefined,
  firings: oneOf(['pending', 'admitted', 'refused', 'skipped'], raw.firings),
  agent: raw.agent || undefined,
})

export function SchedulesPage() {
  const [search, change] = useUrlState(parse)
  const { allowed, reason } = useScope('agents:read')
  const lacking = { write: useScope('agents:write').reason, invoke: useScope('agents:invoke').reason }
  const query = useQuery({ ...triggersQuery, enabled: allowed })
  const agents = useQuery({ ...agentsQuery, enabled: allowed }).data?.items ?? []
  const createReason = lacking.write
  const client = useQueryClient()
  const enable = useMutation({
    // The key of a schedule is its id, which is unique where names are not.
    mutationFn: ({ trigger, enabled }: { trigger: Trigger; enabled: boolean }) => unwrap(api.PATCH('/api/admin/triggers/{name}', { params: { path: { name: trigger.key } }, body: { enabled } })),
    onSuccess: (saved, { trigger }) => {
      toast(`${trigger.title} is now ${saved.enabled ? 'active' : 'paused'}.`)
      void client.invalidateQueries({ queryKey: keys.triggers })
    },
  })
  useActions(
    useMemo(
      () => [
        { id: 'schedule-new', label: 'Create a schedule…', group: 'On this page', disabledReason: createReason, run: () => change({ dialog: 'new-schedule' }, { push: true }) },
        { id: 'event-trigger-new', label: 'Create an event trigger…', group: 'On this page', disabledReason: createReason, run: () => change({ dialog: 'new-event' }, { push: true }) },
      ],
      [change, createReason],
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
    current: search.item,
    fixed: (one: Trigger, change: 'edit' | 'delete') => fixedReason(one, change, agents, lacking),
    lacking,
    onEnable: (trigger: Trigger, enabled: boolean) => enable.mutate({ trigger, enabled }),
    onAct: (dialog: 'edit' | 'run' | 'delete', key: string) => change({ dialog, trigger: key }, { push: true }),
  }
  return (
    <>
      <PageHeader title="Schedules and triggers" description="What starts agents and workflows by itself: a time, or an event." actions={create} />
      {!allowed ? (
        <Panel><EmptyState title="You cannot see triggers.">{reason}</EmptyState></Panel>
      ) : (
        <div className="grid gap-4">
          <InlineError error={enable.error} />
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
