import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useId, useMemo, useState } from 'react'
import { api, unwrap } from '~/api/client'
import { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Select, Textarea } from '~/ui/Field'
import { Tabs } from '~/ui/Tabs'
import { toast } from '~/ui/toast'
import { WithCode } from '~/ui/WithCode'
import { randomKey } from '~/util/random-key'
import { type Draft, emptyDraft, hasField, localProblems, type Mode, plannerProblem, problemAt, problemsOf, toBody, toMode } from './draft'
import { PlanView } from './PlanView'
import { TaskFields } from './TaskFields'

type Outcome = Schemas['CheckedWorkflow'] | Schemas['StartedWorkflow']

/** Describe tasks or a goal, look at the plan of a dry run, and dispatch exactly what was checked. */
export function DispatchDialog({ disabledReason, onClose }: { disabledReason: string | undefined; onClose: () => void }) {
  const [draft, setDraft] = useState(emptyDraft)
  const [checkedText, setCheckedText] = useState<string>()
  const [idempotencyKey, setKey] = useState(randomKey)
  const client = useQueryClient()
  const navigate = useNavigate()
  const agents = useQuery(agentsQuery).data?.items ?? []
  const own = useMemo(() => localProblems(draft), [draft])
  const text = JSON.stringify(draft)

  const check = useMutationOnce({
    mutationFn: async (value: Draft) => {
      if (localProblems(value).size > 0) throw new ApiError(400, 'invalid', [...localProblems(value).values()][0]!, [...localProblems(value)].map(([field, reason]) => ({ field, reason })))
      return (await unwrap<Outcome>(api.POST('/api/coordination/dispatch', { body: { ...toBody(value), dryRun: true } }))) as Schemas['CheckedWorkflow']
    },
    onSuccess: (_plan, value) => setCheckedText(JSON.stringify(value)),
  })
  const start = useMutationOnce({
    mutationFn: async () => (await unwrap<Outcome>(api.POST('/api/coordination/dispatch', { params: { header: { 'Idempotency-Key': idempotencyKey } }, body: { ...toBody(draft), dryRun: false } }))) as Schemas['StartedWorkflow'],
    onSuccess: ({ workflowId }) => {
      toast('The workflow was dispatched.')
      void client.invalidateQueries({ queryKey: keys.workflows })
      void navigate({ to: '/workflows/$workflowId', params: { workflowId }, search: {}, replace: true })
    },
  })
  const set = (change: Partial<Draft>) => {
    setDraft((known) => ({ ...known, ...change }))
    // Another request needs another key.
    setKey(randomKey())
    start.reset()
  }
  const failure = start.error ?? check.error
  const problems = own.size > 0 && check.isError ? own : problemsOf(failure instanceof ApiError ? failure.details : undefined)
  const isGoal = draft.mode === 'goal'
  const isChecked = check.isSuccess && checkedText === text
  const shownElsewhere = problems.size > 0 && [...problems.keys()].every((field) => hasField(draft.mode, field))
  const settings = <Settings draft={draft} set={set} problem={(field) => problemAt(problems, field)} />
  return (
    <Dialog
      open
      onClose={onClose}
      // Enter in a field only checks: whoever presses it twice has not seen the plan.
      onSubmit={() => check.mutate(draft)}
      size="lg"
      title="Dispatch a workflow"
      description={`Agents do the tasks in the order of what they depend on. ${isGoal ? 'An agent plans the tasks of a goal after the dispatch, so a check cannot show them.' : 'Nothing starts before you have seen the plan.'}`}
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button variant={isChecked ? 'secondary' : 'primary'} type="submit" busy={check.isPending} disabledReason={disabledReason}>
            {isGoal ? 'Check the goal' : 'Check the plan'}
          </Button>
          <Button variant={isChecked ? 'primary' : 'secondary'} busy={start.isPending} disabledReason={isChecked ? undefined : isGoal ? 'Check the goal first.' : 'Check the plan first.'} onClick={() => start.mutate()}>
            Dispatch
          </Button>
        </>
      }
    >
      <Tabs<Mode>
        label="How the work is described"
        value={draft.mode}
        onChange={(mode) => set(toMode(draft, mode))}
        tabs={[
          {
            key: 'tasks',
            label: 'Tasks',
            count: draft.tasks.length,
            panel: (
              <div className="space-y-4">
                <TaskFields tasks={draft.tasks} onChange={(tasks) => set({ tasks })} agents={agents.map(({ name }) => name)} problems={problems} />
                {settings}
              </div>
            ),
          },
          {
            key: 'goal',
            label: 'A goal',
            panel: (
              <div className="space-y-4">
                <Field label="What is to be done" hint="The agent task-planner makes the tasks of it, after the dispatch." problem={problemAt(problems, 'description') ?? plannerProblem(problems)}>
                  {(ids) => <Textarea {...ids} rows={5} value={draft.description} onChange={(event) => set({ description: event.target.value })} />}
                </Field>
                {problems.has('planner') && (
                  <Link to="/products" target="_blank" className="rounded-sm text-sm text-accent-text hover:underline">
                    Products
                  </Link>
                )}
                {settings}
              </div>
            ),
          },
          {
            key: 'json',
            label: 'JSON',
            panel: (
              <Field label="A list of tasks, or the whole request" problem={problems.get('json')}>
                {(ids) => <Textarea {...ids} rows={14} value={draft.json} onChange={(event) => set({ json: event.target.value })} className="font-mono text-xs!" />}
              </Field>
            ),
          },
        ]}
      />
      {failure && !problems.has('json') && (shownElsewhere ? <p role="alert" className="mt-3 rounded-md bg-fail-soft px-3 py-2 text-fail">{problems.size === 1 ? 'One field has a problem' : `${problems.size} fields have a problem`}: see above.</p> : <InlineError error={failure} />)}
      {isChecked && check.data && (
        <div className="mt-4">
          <PlanView plan={check.data} />
        </div>
      )}
    </Dialog>
  )
}

function Settings({ draft, set, problem }: { draft: Draft; set: (change: Partial<Draft>) => void; problem: (field: string) => string | undefined }) {
  const id = useId()
  // What is wrong with a model names those that there are, which is too long for the width of its field.
  const model = problem('model')
  return (
    <div className="grid grid-cols-2 gap-3 sm:grid-cols-[2fr_1fr_1fr_1fr_1.6fr]">
      <Field label="Model" className="max-sm:col-span-2">
        {(ids) => <Input {...ids} {...(model && { 'aria-invalid': true, 'aria-describedby': id })} value={draft.model} placeholder="Each agent’s own" onChange={(event) => set({ model: event.target.value })} />}
      </Field>
      <Field label="Budget, dollars" problem={problem('budgetUsd')}>
        {(ids) => <Input {...ids} inputMode="decimal" value={draft.budgetUsd} placeholder="No limit" onChange={(event) => set({ budgetUsd: event.target.value })} />}
      </Field>
      <Field label="Budget, tokens" problem={problem('budgetTokens')}>
        {(ids) => <Input {...ids} inputMode="numeric" value={draft.budgetTokens} placeholder="No limit" onChange={(event) => set({ budgetTokens: event.target.value })} />}
      </Field>
      <Field label="At a time" problem={problem('maxConcurrent')}>
        {(ids) => <Input {...ids} inputMode="numeric" value={draft.maxConcurrent} placeholder="8" onChange={(event) => set({ maxConcurrent: event.target.value })} />}
      </Field>
      <Field label="If a task fails">
        {(ids) => <Select {...ids} value={draft.onFailure} onChange={(event) => set({ onFailure: event.target.value as Draft['onFailure'] })} options={[{ value: 'escalate', label: 'Ask a person' }, { value: 'skip', label: 'Skip what depends on it' }]} />}
      </Field>
      {model && <p id={id} className="col-span-full text-xs wrap-anywhere text-danger-text"><WithCode text={model} /></p>}
    </div>
  )
}
