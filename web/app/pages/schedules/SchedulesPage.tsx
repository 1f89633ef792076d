import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { CalendarClock, Plus, Zap } from 'lucide-react'
import { useMemo } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { oneOf, type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
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
  /** The schedule that a run names as its origin. */
  item: raw.item || undefined,
  firings: oneOf(['pending', 'admitted', 'refused', 'skipped'], raw.firings),
  agent: raw.agent || undefined,
})
const DIALOGS = ['new-schedule', 'new-event', 'edit', 'run', 'delete'] as const

export function SchedulesPage() {
  const [search, change] = useUrlState(parse)
  const { dialog, of, open, close } = useUrlDialog(DIALOGS)
  const { allowed, reason } = useScope('agents:read')
  const createReason = useScope('agents:write').reason
  const lacking = { write: createReason, invoke: useScope('agents:invoke').reason }
  const query = useQuery({ ...triggersQuery, enabled: allowed })
  const agents = useQuery({ ...agentsQuery, enabled: allowed }).data?.items ?? []
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
        { id: 'schedule-new', label: 'Create a schedule…', group: 'On this page', disabledReason: createReason, run: () => open('new-schedule') },
        { id: 'event-trigger-new', label: 'Create an event trigger…', group: 'On this page', disabledReason: createReason, run: () => open('new-event') },
      ],
      [open, createReason],
    ),
  )
  const create = (
    <>
      <Button icon={<Zap aria-hidden size={14} />} disabledReason={createReason} onClick={() => open('new-event')}>Create an event trigger</Button>
      <Button variant="primary" icon={<Plus aria-hidden size={14} />} disabledReason={createReason} onClick={() => open('new-schedule')}>Create a schedule</Button>
    </>
  )
  const schedules = scheduleRows(query.data?.schedules ?? [])
  const events = eventRows(query.data?.events ?? [])
  const chosen = [...schedules, ...events].find((one) => one.key === of)
  const fixed = (one: Trigger, what: 'edit' | 'delete') => fixedReason(one, what, agents, lacking)
  const table = {
    current: search.item,
    fixed,
    lacking,
    onEnable: (trigger: Trigger, enabled: boolean) => enable.mutate({ trigger, enabled }),
    onAct: (what: 'edit' | 'run' | 'delete', key: string) => open(what, key),
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
      {(dialog === 'new-schedule' || dialog === 'new-event') && <TriggerDialog key={dialog} when={dialog === 'new-event' ? 'event' : 'schedule'} agents={agents} onClose={close} />}
      {dialog === 'edit' && chosen && <TriggerDialog trigger={chosen} when={chosen.schedule ? 'schedule' : 'event'} agents={agents} disabledReason={fixed(chosen, 'edit')} onClose={close} />}
      {dialog === 'run' && chosen && <RunNowDialog trigger={chosen} disabledReason={lacking.invoke} onClose={close} />}
      {dialog === 'delete' && chosen && <DeleteTriggerDialog trigger={chosen} agents={agents} disabledReason={fixed(chosen, 'delete')} onClose={close} />}
    </>
  )
}
