import { problemAt } from '~/api/problems'
import { Field, Input, Select } from '~/ui/Field'
import { NumberField } from '~/ui/NumberField'
import type { Draft } from './trigger-draft'
import { type EventKind, EVENTS } from './triggers'

const COMMON: [string, string][] = [
  ['0 * * * *', 'Every hour'],
  ['0 8 * * *', 'Every day at 8:00'],
  ['0 8 * * MON-FRI', 'Every working day at 8:00'],
  ['0 9 * * MON', 'Every Monday at 9:00'],
  ['0 6 1 * *', 'Every first of the month at 6:00'],
]

type Props = { draft: Draft; set: (change: Partial<Draft>) => void; error: unknown }

/** When a trigger fires: the times of a schedule, or the events that it waits for. */
export const WhenFields = (props: Props) => (props.draft.when === 'schedule' ? <Times {...props} /> : <Events {...props} />)

/** What the API says about a setting, whether it belongs to an agent or to the trigger of a workflow. */
const settingProblem = (error: unknown, name: string) => problemAt(error, `config.trigger.${name}`) ?? problemAt(error, `config.${name}`)

function Times({ draft, set, error }: Props) {
  const isCommon = COMMON.some(([cron]) => cron === draft.cron)
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <Field label="Times">
        {(ids) => <Select {...ids} value={isCommon ? draft.cron : ''} onChange={(event) => event.target.value && set({ cron: event.target.value })} options={[...COMMON.map(([value, label]) => ({ value, label })), { value: '', label: 'As the expression says' }]} />}
      </Field>
      <Field label="Cron expression" hint="Minute, hour, day of the month, month, weekday." problem={problemAt(error, 'trigger')}>
        {(ids) => <Input {...ids} value={draft.cron} onChange={(event) => set({ cron: event.target.value })} className="font-mono text-xs!" />}
      </Field>
      <Field label="Time zone" hint="Such as Europe/Berlin. Empty: UTC." problem={settingProblem(error, 'time_zone')}>
        {(ids) => <Input {...ids} value={draft.timeZone} onChange={(event) => set({ timeZone: event.target.value })} />}
      </Field>
      <Field label="Times missed while no server ran" problem={settingProblem(error, 'missed')}>
        {(ids) => <Select {...ids} value={draft.missed} onChange={(event) => set({ missed: event.target.value as Draft['missed'] })} options={[{ value: 'once', label: 'Make up for them once' }, { value: 'skip', label: 'Skip them' }]} />}
      </Field>
    </div>
  )
}

function Events({ draft, set, error }: Props) {
  const what = draft.event === 'on_document_ingested' ? 'MIME types' : draft.event === 'on_relationship_created' ? 'Relationship types' : 'Object types'
  const takesLabels = draft.event === 'on_entity_created' || draft.event === 'on_entity_updated'
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <Field label="Event" problem={problemAt(error, 'trigger')}>
        {(ids) => <Select {...ids} value={draft.event} onChange={(event) => set({ event: event.target.value as EventKind })} options={Object.entries(EVENTS).map(([value, label]) => ({ value, label }))} />}
      </Field>
      <Field label={what} hint="Separated by commas. Empty: all." problem={settingProblem(error, 'types')}>
        {(ids) => <Input {...ids} value={draft.types} onChange={(event) => set({ types: event.target.value })} />}
      </Field>
      {takesLabels && (
        <Field label="Labels" hint="Only if the object has all of them." problem={settingProblem(error, 'labels')}>
          {(ids) => <Input {...ids} value={draft.labels} onChange={(event) => set({ labels: event.target.value })} />}
        </Field>
      )}
      <NumberField
        label="Seconds to wait for more"
        hint="One run for all events of that time."
        problem={settingProblem(error, 'coalesce_seconds')}
        whole
        most={3600}
        placeholder={draft.event === 'on_entity_updated' ? '5' : '0'}
        value={draft.coalesceSeconds}
        onChange={(coalesceSeconds) => set({ coalesceSeconds })}
      />
    </div>
  )
}
