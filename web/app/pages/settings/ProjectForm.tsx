import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { useScope, useSession } from '~/api/session'
import { useUnsaved } from '~/hooks/use-unsaved'
import type { Project, Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Switch } from '~/ui/Field'
import { JsonField } from '~/ui/JsonField'
import { NumberField } from '~/ui/NumberField'
import { submits } from '~/ui/submits'
import { toast } from '~/ui/toast'
import { formatCount } from '~/util/format'

const KEPT = [
  ['runsDays', 'Ended runs', 'With messages, tool calls and events.'],
  ['eventsDays', 'Changes in the feed', 'Objects and their versions stay.'],
  ['firingsDays', 'Firings of triggers', 'Only settled ones.'],
] as const
type Days = Record<(typeof KEPT)[number][0], number | null>

/** What has no control of its own. */
const WORK = ['selectionRules', 'selectInternalAgents', 'discussions'] as const
type Work = Pick<Schemas['UpdateProject'], (typeof WORK)[number]>
const workOf = (project: Project): Work => ({ selectionRules: project.selectionRules ?? [], selectInternalAgents: project.selectInternalAgents ?? false, discussions: project.discussions ?? {} })

/** What was changed. What the text does not name stays as it is. */
const changesOf = (before: Work, after: unknown): Work => Object.fromEntries(Object.entries((after ?? {}) as Work).filter(([field, value]) => JSON.stringify(value) !== JSON.stringify(before[field as keyof Work])))

/** The name, the strictness and the retention of the project. */
export function ProjectForm({ project }: { project: Project }) {
  const client = useQueryClient()
  const session = useSession()
  const write = useScope('admin:write')
  const [name, setName] = useState(project.name)
  const [strict, setStrict] = useState(project.strict)
  const [autoDispatch, setAutoDispatch] = useState(project.autoDispatch ?? false)
  const [work, setWork] = useState<unknown>(() => workOf(project))
  const [isBroken, setBroken] = useState(false)
  const [brokenDays, setBrokenDays] = useState<Partial<Record<keyof Days, boolean>>>({})
  const saved: Days = { runsDays: project.retention?.runsDays ?? null, eventsDays: project.retention?.eventsDays ?? null, firingsDays: project.retention?.firingsDays ?? null }
  const [days, setDays] = useState(saved)
  const retention = Object.fromEntries(KEPT.filter(([key]) => days[key] !== saved[key]).map(([key]) => [key, days[key]]))
  const body: Schemas['UpdateProject'] = {
    ...(name !== project.name && { name }),
    ...(strict !== project.strict && { strict }),
    ...(autoDispatch !== (project.autoDispatch ?? false) && { autoDispatch }),
    ...(Object.keys(retention).length > 0 && { retention }),
    ...changesOf(workOf(project), work),
  }
  const changes = JSON.stringify(body)
  // What was saved stays a change until the project is read again.
  const [savedChanges, setSavedChanges] = useState('{}')
  useUnsaved('page', isBroken || Object.values(brokenDays).includes(true) || (changes !== '{}' && changes !== savedChanges))
  const save = useMutationOnce({
    mutationFn: () => unwrap(api.PATCH('/api/projects/{id}', { params: { path: { id: project.id } }, body })),
    onSuccess: (kept) => {
      // The API adds what a text leaves out.
      setWork(workOf(kept))
      setSavedChanges(changes)
      toast('The project was saved.')
      void client.invalidateQueries({ queryKey: keys.projects })
    },
  })
  const spans = !session?.project
  const nameHint = project.name === 'default' ? 'Requests that name no project use the project called default, so it keeps its name here.' : spans ? 'Clients that name the project have to use the new name.' : 'Only a token that spans projects can rename.'
  return (
    <form noValidate className="grid gap-4" onSubmit={submits(() => save.mutate())}>
      <Field label="Name" hint={nameHint} problem={problemAt(save.error, 'name')}>
        {(ids) => <Input {...ids} value={name} disabled={!spans || project.name === 'default'} onChange={(event) => setName(event.target.value)} />}
      </Field>
      <fieldset>
        <legend className="mb-2 text-xs font-medium text-text-2">Days that things are kept (empty: for ever)</legend>
        <div className="grid gap-3 sm:grid-cols-3">
          {KEPT.map(([key, label, hint]) => (
            <NumberField key={key} label={label} hint={hint} problem={problemAt(save.error, `retention.${key}`)} whole least={1} most={36_500} placeholder="For ever" value={days[key]} onChange={(value) => setDays({ ...days, [key]: value })} onBroken={(is) => setBrokenDays((known) => ({ ...known, [key]: is }))} />
          ))}
        </div>
        {project.deleted && <p className="mt-2 text-xs text-text-2">Deleted so far: {formatCount(project.deleted.runs)} runs, {formatCount(project.deleted.events)} changes, {formatCount(project.deleted.firings)} firings.</p>}
      </fieldset>
      <Switch label="Refuse types that no template pack describes" checked={strict} onChange={setStrict} />
      <Switch label="Execute new tasks outside of workflows by themselves" checked={autoDispatch} onChange={setAutoDispatch} />
      <JsonField label="Who gets tasks, and how agents discuss, as JSON" hint="selectionRules: the first pattern that matches a task names its agent. selectInternalAgents: whether internal agents are chosen too. discussions: what holds for those that do not say it." rows={7} value={work} onChange={setWork} onBroken={setBroken} problem={WORK.map((field) => problemAt(save.error, field)).find(Boolean)} />
      <InlineError error={save.error && otherProblem(save.error, [...WORK, 'name', ...KEPT.map(([key]) => `retention.${key}`)])} />
      <p><Button type="submit" variant="primary" busy={save.isPending} disabledReason={write.reason ?? (isBroken ? 'Correct the JSON first.' : Object.keys(body).length === 0 ? 'Nothing was changed yet.' : undefined)}>Save the project</Button></p>
    </form>
  )
}
