import { afterEach, expect, it, vi } from 'vitest'
import { fetchThenImport } from './fetch-then-import'

afterEach(() => void vi.unstubAllGlobals())
const part = { name: 'part' }

it('imports nothing whose files do not arrive, and asks for them again', async () => {
  const request = vi.fn().mockResolvedValue(new Response('')).mockRejectedValueOnce(new TypeError('Failed to fetch'))
  vi.stubGlobal('fetch', request)
  const importer = vi.fn().mockResolvedValue(part)
  await expect(fetchThenImport(importer, ['assets/Audit.js'])).rejects.toThrow('Failed to fetch')
  expect(importer).not.toHaveBeenCalled()
  expect(await fetchThenImport(importer, ['assets/Audit.js'])).toBe(part)
  expect(request).toHaveBeenCalledTimes(2)
  expect(request).toHaveBeenCalledWith('/assets/Audit.js')
})

it('asks once for a file of several parts, and takes no refusal for it', async () => {
  const request = vi.fn(async (file: string) => new Response('', { status: file.includes('gone') ? 404 : 200 }))
  vi.stubGlobal('fetch', request)
  const importer = vi.fn().mockResolvedValue(part)
  await fetchThenImport(importer, ['assets/icons.js', 'assets/A.js'])
  await fetchThenImport(importer, ['assets/icons.js', 'assets/B.js'])
  expect(request.mock.calls.flat()).toEqual(['/assets/icons.js', '/assets/A.js', '/assets/B.js'])
  importer.mockClear()
  await expect(fetchThenImport(importer, ['assets/gone.js'])).rejects.toThrow('404')
  expect(importer).not.toHaveBeenCalled()
})
