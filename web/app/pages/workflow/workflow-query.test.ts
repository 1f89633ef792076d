import { expect, it } from 'vitest'
import { titleOf } from './workflow-query'

it('names a workflow by the first line of its goal, and says that there is more of a long one', () => {
  expect(titleOf({ description: '\n Write the notes \nFor customers.' })).toBe('Write the notes')
  const long = titleOf({ description: 'x'.repeat(100_000) })
  expect(long).toHaveLength(241)
  expect(long.endsWith('…')).toBe(true)
})
