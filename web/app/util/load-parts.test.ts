import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { importOrTell, importUntilLoaded, OtherFiles } from './load-parts'

const { servedVersion, toast } = vi.hoisted(() => ({ servedVersion: vi.fn(), toast: vi.fn() }))
vi.mock('~/api/served-version', () => ({ servedVersion }))
vi.mock('~/ui/toast', () => ({ toast }))
beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const gone = () => Promise.reject(new TypeError('Failed to fetch dynamically imported module'))

it('loads a part as soon as the server is back', async () => {
  servedVersion.mockResolvedValue('unreachable')
  const importer = vi.fn(gone).mockImplementationOnce(gone).mockImplementationOnce(gone)
  const part = importUntilLoaded<unknown>(importer)
  await vi.advanceTimersByTimeAsync(600)
  importer.mockResolvedValue('part' as never)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await part).toBe('part')
})

it('does not wait for a part of another version', async () => {
  servedVersion.mockResolvedValue('other')
  await expect(importUntilLoaded(gone)).rejects.toThrow(OtherFiles)
  expect(await importOrTell<string>(gone, 'instead')).toBe('instead')
  expect(toast).toHaveBeenCalledWith('This part of the page could not be loaded.', { kind: 'failed', description: 'The server was replaced by another version. Reload the page.' })
})
