import { describe, expect, it } from 'vitest'
import { askedText, outcomeText } from './run-text'

const run = { status: 'completed', model: 'google/gemini', inputPreview: 'Read the file', summary: null, errorMessage: null } as const

describe('what a list says about a run', () => {
  it('is what it was asked, whether it is over or not', () => {
    for (const status of ['queued', 'running', 'waiting', 'completed', 'failed'] as const) expect(askedText({ ...run, status, summary: { text: 'Done.' }, errorMessage: 'No key.' })).toBe('Read the file')
    expect(askedText({ ...run, inputPreview: null })).toBe('google/gemini')
    expect(askedText({ ...run, inputPreview: 'TASK: Read **all** files of the folder. Then list them.' })).toBe('Read all files of the folder.')
  })

  it('is then the error or the first line of the result, once it is over', () => {
    expect(outcomeText({ ...run, summary: { text: '\nIt has 7 lines.\nMore.' } })).toBe('It has 7 lines.')
    expect(outcomeText({ ...run, status: 'failed', summary: { text: 'half' }, errorMessage: 'No key.' })).toBe('No key.')
    expect(outcomeText({ ...run, status: 'running', summary: { text: 'so far' } })).toBeUndefined()
    expect(outcomeText({ ...run, status: 'cancelled' })).toBeUndefined()
  })
})
