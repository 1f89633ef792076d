import { expect, it } from 'vitest'
import { emptyDraft, hasField, keyOf, localProblems, newTask, plannerProblem, problemAt, problemsOf, toBody, toMode } from './draft'

it('makes a request of tasks, with keys from titles and without what is empty', () => {
  const draft = { ...emptyDraft(), tasks: [newTask({ title: 'Write the notes' }), newTask({ key: 'edit', title: 'Edit', agent: 'editor', blockedBy: ['write-the-notes'] })], model: 'rehearsal/echo', budgetTokens: '20,000' }
  expect(toBody(draft)).toEqual({
    tasks: [
      { key: 'write-the-notes', title: 'Write the notes' },
      { key: 'edit', title: 'Edit', assignedAgent: 'editor', blockedBy: ['write-the-notes'] },
    ],
    model: { provider: 'rehearsal', name: 'echo' },
    budgetTokens: 20_000,
    onFailure: 'escalate',
  })
})

it('takes a list or a whole request as JSON', () => {
  expect(toBody({ ...emptyDraft(), mode: 'json', json: '[{"key":"a","title":"A"}]' })).toEqual({ tasks: [{ key: 'a', title: 'A' }] })
  expect(localProblems({ ...emptyDraft(), mode: 'json', json: '{' }).get('json')).toContain('no JSON')
})

it('finds problems at their fields', () => {
  const problems = problemsOf([{ field: 'tasks[1].blockedBy[0]', reason: 'there is no task `zz`' }])
  expect(problemAt(problems, 'tasks[1].blockedBy')).toBe('there is no task `zz`')
  expect(problemAt(problems, 'tasks[1].title')).toBeUndefined()
  expect(localProblems({ ...emptyDraft(), budgetUsd: 'much' }).has('budgetUsd')).toBe(true)
  expect([...localProblems({ ...emptyDraft(), budgetUsd: '2.5', budgetTokens: '90.000', maxConcurrent: '2.0' }).keys()]).toEqual(['budgetTokens', 'maxConcurrent'])
})

it('makes keys of letters and digits', () => {
  expect(keyOf({ key: '', title: 'Änderungen & Prüfung (2)' })).toBe('anderungen-prufung-2')
})

it('shows a missing planner once, at its field, with ways out that the form has', () => {
  const reason = 'there is no agent `task-planner`: install emergent.code, name another planner, or give `tasks`'
  expect(plannerProblem(problemsOf([{ field: 'planner', reason }]))).toBe('there is no agent `task-planner`: install emergent.code under Products, or describe the tasks yourself under Tasks')
  expect([hasField('goal', 'planner'), hasField('goal', 'model'), hasField('tasks', 'tasks[0].key')]).toEqual([true, true, true])
  expect([hasField('tasks', 'planner'), hasField('goal', 'tasks[0].key'), hasField('json', 'model')]).toEqual([false, false, false])
})

it('makes the JSON anew when it is opened again, unless it was edited by hand', () => {
  let draft = { ...emptyDraft(), tasks: [newTask({ title: 'First' })] }
  const go = (mode: 'tasks' | 'json') => (draft = { ...draft, ...toMode(draft, mode) })
  go('json')
  expect(draft.json).toContain('"First"')
  go('tasks')
  draft.tasks = [newTask({ title: 'Second' })]
  go('json')
  expect(draft.json).toContain('"Second"')
  draft.json = '[]'
  go('tasks')
  go('json')
  expect(draft.json).toBe('[]')
})
