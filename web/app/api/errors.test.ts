import { expect, it } from 'vitest'
import { ApiError, advice, adviceForSearch } from './errors'

it('blames a change of somebody else only for conflicts with one', () => {
  const of = (code: string) => advice(new ApiError(409, code, 'refused'))
  expect(of('version_conflict')).toMatch(/Somebody changed it meanwhile/)
  for (const code of ['no_model', 'conflict', 'key_taken', 'already_installed']) expect(of(code)).not.toMatch(/Somebody/)
  expect(of('no_model')).toMatch(/key for a model/)
})

it('names the model of the server where there is no agent', () => {
  expect(adviceForSearch(new ApiError(409, 'no_model', 'refused'))).toMatch(/EMERGENT_MODEL=provider\/name/)
  expect(adviceForSearch(new ApiError(409, 'conflict', 'refused'))).toBeUndefined()
  expect(adviceForSearch(null)).toBeUndefined()
})
