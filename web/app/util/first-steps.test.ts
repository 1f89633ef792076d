import { afterEach, expect, it, vi } from 'vitest'
import { setCurrentProject } from '~/api/client'
import { noteFirstSteps, readFirstSteps } from './first-steps'

afterEach(() => {
  vi.restoreAllMocks()
  localStorage.clear()
  setCurrentProject(undefined)
})

it('keeps what happened for each project', () => {
  expect(readFirstSteps()).toEqual({})
  noteFirstSteps({ begun: true })
  noteFirstSteps({ looked: true })
  expect(readFirstSteps()).toEqual({ begun: true, looked: true })
  expect(readFirstSteps()).toBe(readFirstSteps())
  setCurrentProject('other')
  expect(readFirstSteps()).toEqual({})
  noteFirstSteps({ closed: true })
  setCurrentProject(undefined)
  noteFirstSteps({ looked: false })
  expect(readFirstSteps()).toEqual({ begun: true })
  expect(localStorage.getItem('emergent-first-steps-other')).toBe('closed')
})

it('ignores what it did not write', () => {
  localStorage.setItem('emergent-first-steps-', '{"begun":1} constructor looked')
  expect(readFirstSteps()).toEqual({ looked: true })
})

it('goes on where the browser stores nothing', () => {
  setCurrentProject('private')
  const refuse = () => {
    throw new DOMException('refused', 'SecurityError')
  }
  vi.stubGlobal('localStorage', { getItem: refuse, setItem: refuse, clear: () => undefined })
  noteFirstSteps({ closed: true })
  expect(readFirstSteps()).toEqual({ closed: true })
  vi.unstubAllGlobals()
})
