import { problemAt } from '~/api/problems'
import { Field, Select, Textarea } from '~/ui/Field'
import { JsonField } from '~/ui/JsonField'
import type { Draft } from './trigger-draft'

type Props = { draft: Draft; set: (change: Partial<Draft>) => void; error: unknown; onBroken: (isBroken: boolean) => void }

/** The workflow that a trigger starts: a goal for a planner, or tasks as JSON. */
export function WorkflowFields({ draft, set, error, onBroken }: Props) {
  const problem = (...fields: string[]) => fields.map((field) => problemAt(error, `dispatch.${field}`) ?? problemAt(error, field)).find(Boolean)
  return (
    <div className="grid gap-4">
      <Field label="The workflow is">
        {(ids) => (
          <Select
            {...ids}
            value={draft.plan}
            onChange={(event) => {
              onBroken(false)
              set({ plan: event.target.value as Draft['plan'] })
            }}
            options={[{ value: 'goal', label: 'A goal: a planner makes the tasks' }, { value: 'tasks', label: 'Tasks that are given here' }]}
          />
        )}
      </Field>
      {draft.plan === 'goal' ? (
        <Field label="Goal" problem={problem('description', 'planner')}>
          {(ids) => <Textarea {...ids} rows={4} value={draft.goal} onChange={(event) => set({ goal: event.target.value })} />}
        </Field>
      ) : (
        <JsonField label="Tasks as JSON" hint="Each with key and title, and as needed description, assignedAgent and blockedBy." rows={9} value={draft.tasks} onChange={(tasks) => set({ tasks })} onBroken={onBroken} problem={problem('tasks')} />
      )}
    </div>
  )
}
