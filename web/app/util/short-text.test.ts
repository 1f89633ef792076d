import { expect, it } from 'vitest'
import { shortText } from './short-text'

it('takes the first sentence, on one line', () => {
  expect(shortText('Read the file')).toBe('Read the file')
  expect(shortText('Remove vendors without orders. Leave those with open claims alone.')).toBe('Remove vendors without orders.')
  expect(shortText('Compare the two offers,\n\n  line by line.')).toBe('Compare the two offers, line by line.')
  // Neither a greeting nor an abbreviation is a sentence, and a number is not cut at its point.
  expect(shortText('Hello. Which invoices are open?')).toBe('Hello. Which invoices are open?')
  expect(shortText('List what changed between the versions, e.g. of the API.')).toBe('List what changed between the versions, e.g. of the API.')
  expect(shortText('Upgrade the library to 3.14 and run the tests.')).toBe('Upgrade the library to 3.14 and run the tests.')
})

it('leaves out Markdown and the labels of prompts, but no part of a name', () => {
  expect(shortText('## **Goal**\n- Read `notes_old` and [the plan](https://example.com/plan)')).toBe('Goal - Read notes_old and the plan')
  expect(shortText('- one')).toBe('one')
  expect(shortText('Read **all** releases of `today`.')).toBe('Read all releases of today.')
  expect(shortText('entities_delete Note/old')).toBe('entities_delete Note/old')
  expect(shortText('Compare __init__.py with src/__main__.py, `__all__` and __dirname')).toBe('Compare __init__.py with src/__main__.py, __all__ and __dirname')
  expect(shortText('Read __all__ releases, and __no drafts__.')).toBe('Read all releases, and no drafts.')
  expect(shortText('TASK: Pay the invoices of October')).toBe('Pay the invoices of October')
  expect(shortText('TESTING TASK: Check the totals')).toBe('Check the totals')
  expect(shortText('DISCUSSION: How do we agree on the fuel surcharge?')).toBe('How do we agree on the fuel surcharge?')
  expect(shortText('Break this work down into tasks and make them with your tools: Move the archive')).toBe('Move the archive')
  expect(shortText('**')).toBe('**')
})

it('cuts what is longer than 80 letters, between words if there are any', () => {
  const cut = shortText('word '.repeat(40))
  expect(cut).toMatch(/ word…$/)
  expect(cut.length).toBeLessThanOrEqual(80)
  expect([...shortText('🙂'.repeat(100))]).toEqual([...'🙂'.repeat(79), '…'])
})
