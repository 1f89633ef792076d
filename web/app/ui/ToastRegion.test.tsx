import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { afterEach, expect, it, vi } from 'vitest'
import { toast } from './toast'
import ToastRegion from './ToastRegion'

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true })
afterEach(() => vi.useRealTimers())

const shown = () => [...document.querySelectorAll('[data-toast] p:first-child')].map((one) => one.textContent)
const region = () => document.querySelector('[role=region]')!
/** React knows that the pointer entered and left by these. */
const point = (type: 'pointerover' | 'pointerout') => act(() => region().dispatchEvent(new PointerEvent(type, { bubbles: true, relatedTarget: document.body })))

it('shows the newest messages, also those from before it was there, until they are read', () => {
  vi.useFakeTimers()
  toast('Zero')
  const root = createRoot(document.createElement('div'))
  act(() => root.render(<ToastRegion />))
  expect(shown()).toEqual(['Zero'])
  act(() => vi.advanceTimersByTime(3000))
  act(() => ['One', 'Two', 'Three'].forEach((title) => toast(title, { kind: 'failed' })))
  expect(shown()).toEqual(['Three', 'Two', 'One'])
  point('pointerover')
  act(() => vi.advanceTimersByTime(60_000))
  expect(shown()).toEqual(['Three', 'Two', 'One'])
  act(() => document.querySelector<HTMLElement>('[data-toast] button')!.click())
  expect(shown()).toEqual(['Two', 'One'])
  act(() => vi.advanceTimersByTime(6000))
  expect(shown()).toEqual([])
  act(() => root.unmount())
})
