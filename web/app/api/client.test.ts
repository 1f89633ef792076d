import { afterEach, expect, it, vi } from 'vitest'
import { api, unwrap } from './client'
import { ApiError } from './errors'

afterEach(() => vi.unstubAllGlobals())

const rename = (name: unknown) => unwrap(api.POST('/api/projects', { body: { name } as never }))

it('says what cannot be sent, and asks no server', async () => {
  const fetched = vi.fn()
  vi.stubGlobal('fetch', fetched)
  const refused = await rename(NaN).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ApiError)
  expect(refused).toMatchObject({ status: 400, code: 'invalid', message: 'name is no number, so it cannot be sent.' })
  expect(fetched).not.toHaveBeenCalled()
})

it('says that the server cannot be reached when it cannot', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')))
  await expect(rename('one')).rejects.toMatchObject({ status: 0, code: 'unreachable' })
})
