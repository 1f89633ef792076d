import { expect, it } from 'vitest'
import { countTasks, doneText, titleOf } from './workflow-query'

it('names a workflow by the first line of its goal, and says that there is more of a long one', () => {
  expect(titleOf({ description: '\n Write the notes \nFor customers.' })).toBe('Write the notes')
  const long = titleOf({ description: 'x'.repeat(100_000) })
  expect(long).toHaveLength(241)
  expect(long.endsWith('…')).toBe(true)
})

it('counts skipped tasks apart from those that are done', () => {
  const tasks = (['completed', 'skipped', 'pending', 'skipped', 'completed', 'failed'] as const).map((status) => ({ status }))
  expect(doneText(countTasks(tasks))).toBe('2 of 6 done, 2 skipped')
  expect(doneText(countTasks(tasks.slice(0, 1)))).toBe('1 of 1 done')
})
