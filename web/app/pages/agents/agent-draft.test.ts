import { expect, it } from 'vitest'
import { checkDraft, EMPTY, splitModel } from './agent-draft'

it('takes the provider from the name of a model', () => {
  expect(splitModel('rehearsal/steady', undefined)).toEqual({ provider: 'rehearsal', name: 'steady' })
  expect(splitModel('openrouter/meta/llama', '')).toEqual({ provider: 'openrouter', name: 'meta/llama' })
  expect(splitModel('meta/llama', 'openrouter')).toEqual({ name: 'meta/llama' })
  expect(splitModel('rehearsal/', undefined)).toEqual({ name: 'rehearsal/' })
  expect(splitModel('/steady', undefined)).toEqual({ name: '/steady' })
})

it('accepts a model as one text, and asks for a provider that it cannot know', () => {
  expect(checkDraft({ ...EMPTY, model: 'rehearsal/steady' as never }, undefined)).toEqual({})
  expect(checkDraft({ ...EMPTY, model: { name: 'gpt-5' } as never }, undefined)).toEqual({})
  expect(checkDraft({ ...EMPTY, model: { name: 'steady' } as never }, undefined).model).toContain('provider')
})
