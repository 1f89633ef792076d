import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { importOrTell, importUntilLoaded, OtherFiles, reload } from './load-parts'

const { servedVersion, toast, hasDrafts, askToDiscard } = vi.hoisted(() => ({ servedVersion: vi.fn(), toast: vi.fn(), hasDrafts: vi.fn(() => false), askToDiscard: vi.fn() }))
vi.mock('~/hooks/use-draft', () => ({ hasDrafts }))
vi.mock('~/hooks/use-unsaved', () => ({ askToDiscard, hasUnsaved: () => false }))
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

it('asks before a reload loses a message that was not sent', async () => {
  const loads = vi.spyOn(location, 'reload').mockReturnValue()
  hasDrafts.mockReturnValue(true)
  askToDiscard.mockResolvedValueOnce(false)
  await reload()
  expect(loads).not.toHaveBeenCalled()
  askToDiscard.mockResolvedValueOnce(true)
  await reload()
  expect(loads).toHaveBeenCalledOnce()
  hasDrafts.mockReturnValue(false)
  await reload()
  expect(loads).toHaveBeenCalledTimes(2)
  expect(askToDiscard).toHaveBeenCalledTimes(2)
})
