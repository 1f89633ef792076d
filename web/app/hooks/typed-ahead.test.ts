import { afterEach, expect, it, vi } from 'vitest'
import { collectKey, isOpening, startTyping, takeTyped } from './typed-ahead'
import { isDialogOpen } from './use-shortcut'

afterEach(() => void takeTyped())

const press = (key: string, more: KeyboardEventInit = {}, giveUp = () => {}) => {
  const event = new KeyboardEvent('keydown', { key, cancelable: true, ...more })
  return { isTaken: collectKey(event, giveUp), isPrevented: event.defaultPrevented }
}

it('leaves keys to the page until the palette is asked for', () => {
  expect(press('d')).toEqual({ isTaken: false, isPrevented: false })
  expect(isOpening()).toBe(false)
})

it('collects what is typed before the field is there', () => {
  startTyping()
  expect(isDialogOpen()).toBe(true)
  for (const key of ['d', 'x', 'Backspace', ' ', 'a', 'Enter']) expect(press(key)).toEqual({ isTaken: true, isPrevented: true })
  // What is no text belongs to the browser.
  for (const [key, more] of [['r', { ctrlKey: true }], ['r', { metaKey: true }], ['ArrowLeft', { altKey: true }], ['F5', {}], ['Tab', {}], ['Shift', {}]] as const) expect(press(key, more), key).toEqual({ isTaken: false, isPrevented: false })
  // A second press of the keys that open it loses nothing.
  startTyping()
  expect(takeTyped()).toBe('d a')
  expect(isDialogOpen()).toBe(false)
})

it('is given up with Escape', () => {
  const giveUp = vi.fn()
  startTyping()
  press('a')
  press('Escape', {}, giveUp)
  expect(giveUp).toHaveBeenCalledOnce()
  expect(isOpening()).toBe(false)
})
