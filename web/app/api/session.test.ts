import { QueryClient } from '@tanstack/react-query'
import { afterEach, expect, it, vi } from 'vitest'
import { onUnauthorized } from './client'
import { keys } from './keys'
import { sessionQuery } from './session'

afterEach(() => vi.unstubAllGlobals())

/** Asks who is logged in, of a server that says that nobody is. Returns how often a lost login was reported. */
async function reportsAfter(known: object | null | undefined): Promise<number> {
  vi.stubGlobal('fetch', async () => Response.json({ error: { code: 'unauthorized', message: 'log in' } }, { status: 401 }))
  const client = new QueryClient()
  if (known !== undefined) client.setQueryData(keys.session, known)
  const report = vi.fn()
  const stop = onUnauthorized(report)
  expect(await client.fetchQuery({ ...sessionQuery, staleTime: 0 })).toBe(null)
  stop()
  return report.mock.calls.length
}

it('reports that a login has ended, also if the question who is logged in is refused first', async () => {
  expect(await reportsAfter({ tokenId: 'one' })).toBe(1)
})

it('reports nothing when nobody was logged in', async () => {
  expect(await reportsAfter(undefined)).toBe(0)
  expect(await reportsAfter(null)).toBe(0)
})
