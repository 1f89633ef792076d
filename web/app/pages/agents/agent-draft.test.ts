import { expect, it } from 'vitest'
import { changesBetween, checkDraft, type Draft, EMPTY, shapeProblem, splitModel, whyNotSaved } from './agent-draft'

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

it('says why a draft cannot be saved, and leaves tools that it does not know to the server', () => {
  const why = (change: object, broken: string[] = []) => whyNotSaved({ ...EMPTY, name: 'reader', ...change }, new Set(broken))
  expect(why({})).toBeUndefined()
  expect(why({ name: '' })).toBe('Give the agent a name.')
  expect(why({ name: 'contract reader' })).toMatch(/^Use 1 to 100 letters/)
  expect(why({}, ['config'])).toBe('Correct the JSON first.')
  expect(why({ model: { name: '', provider: 'openai' } })).toMatch(/^Name the model/)
  expect(why({ model: { name: 'gpt-5', temperature: 2.5 } })).toBe('Use a temperature from 0 to 2.')
  expect(why({ model: { name: 'gpt-5', maxTokens: 0 } })).toBe('Use at least 1 token per answer.')
  expect(why({ model: { name: 'gpt-5', temperature: 0, maxTokens: 100 }, maxSteps: 500, defaultTimeout: 1 })).toBeUndefined()
  for (const maxSteps of [0, 501, 1.5]) expect(why({ maxSteps })).toBe('Use 1 to 500 steps.')
  expect(why({ defaultTimeout: 90_000 })).toBe('Use 1 to 86,400 seconds.')
  expect(why({ tools: ['files.read_text_file'] })).toBeUndefined()
})

it('says at once that a name is taken', () => {
  const draft = { ...EMPTY, name: 'researcher' }
  expect(checkDraft(draft, undefined, ['researcher']).name).toBe('There is an agent of this name already.')
  expect(whyNotSaved(draft, new Set(), ['researcher'])).toBe('There is an agent of this name already.')
  expect(whyNotSaved({ ...draft, name: 'Researcher' }, new Set(), ['researcher'])).toBeUndefined()
  expect(whyNotSaved(draft, new Set(), ['writer'])).toBeUndefined()
})

it('says of JSON that no form can show what it has to be', () => {
  expect(shapeProblem({ name: 'x', tools: ['a'], model: 'a/b', maxSteps: null, isDefault: true })).toBeUndefined()
  expect(shapeProblem({ name: 'x', tools: 'search_hybrid' })).toBe('`tools` has to be a list of names.')
  expect(shapeProblem({ name: 'x', model: { provider: 'google' } })).toMatch(/^`model` has to be/)
  for (const draft of [null, [], 'x', 5]) expect(shapeProblem(draft)).toMatch(/^This has to be an object/)
  for (const wrong of [{ name: 5 }, { systemPrompt: [] }, { trigger: {} }, { maxSteps: '5' }, { isDefault: 'yes' }, { tools: [1] }, { model: { name: 'a', temperature: 'x' } }, { model: { name: 'a', provider: 5 } }]) expect(whyNotSaved({ ...EMPTY, name: 'x', ...wrong } as Draft, new Set())).toMatch(/has to be/)
})

it('names the fields that no agent has, and does not send them', () => {
  expect(whyNotSaved({ ...EMPTY, name: 'x', maxStep: 7 } as Draft, new Set())).toBe('`maxStep` is no field of an agent.')
  expect(shapeProblem({ name: 'x', id: 'a', version: 1 })).toBe('`id`, `version` are no fields of an agent.')
})

it('sends what was changed', () => {
  const before = { ...EMPTY, name: 'x', maxSteps: 5 }
  expect(changesBetween(before, { ...before, maxSteps: null, description: 'y' })).toEqual({ maxSteps: null, description: 'y' })
})
