import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, it } from 'vitest'
import { draftsOf, forgetDrafts, hasDraft, hasDrafts, keepDraftsOf, passDraftsOn, useDraft } from './use-draft'

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true })

/** A field that is shown, changed and gone; returns what it had at first. */
function write(name: string, text: string | undefined, initial?: string): string {
  let first = ''
  let change: (text: string) => void = () => undefined
  const Field = () => {
    const [value, setValue] = useDraft(name, initial)
    first ||= value
    change = setValue
    return null
  }
  const root = createRoot(document.createElement('div'))
  act(() => root.render(<Field />))
  if (text !== undefined) act(() => change(text))
  act(() => root.unmount())
  return first
}

it('has a text again when its field is there again', () => {
  write('one', 'half a sentence')
  expect(write('one', undefined)).toBe('half a sentence')
  expect(write('other', undefined)).toBe('')
})

it('keeps nothing that is empty or as it was at first', () => {
  write('form', '{}', '{}')
  expect(hasDraft('form')).toBe(false)
  write('form', '{"a":1}', '{}')
  expect(write('form', ' ', '{}')).toBe('{"a":1}')
  expect(hasDraft('form')).toBe(false)
})

it('forgets what was sent, and what is written meanwhile stays', () => {
  write('talk', 'next question')
  forgetDrafts('talk', 'first question')
  expect(hasDraft('talk')).toBe(true)
  forgetDrafts('talk', 'next question')
  expect(hasDraft('talk')).toBe(false)
  write('r1 deny', 'no')
  write('r10 deny', 'no')
  forgetDrafts('r1')
  expect([hasDraft('r1 deny'), hasDraft('r10 deny')]).toEqual([false, true])
})

it('does not show the texts of one login to the next one', () => {
  keepDraftsOf('a')
  write('talk', 'secret')
  keepDraftsOf(undefined)
  keepDraftsOf('a')
  expect(hasDraft('talk')).toBe(true)
  keepDraftsOf('b')
  expect(hasDraft('talk')).toBe(false)
})

it('shows the texts of a login that the server ended to the next one', () => {
  keepDraftsOf('a')
  write('talk', 'half a question')
  passDraftsOn()
  keepDraftsOf('b')
  expect(hasDraft('talk')).toBe(true)
  keepDraftsOf('c')
  expect(hasDraft('talk')).toBe(false)
})

it('lists the drafts below a name', () => {
  write('r2 deny', 'no')
  write('r2 edit', '{}')
  write('r20 deny', 'other')
  expect([...draftsOf('r2')]).toEqual([['deny', 'no'], ['edit', '{}']])
  expect(hasDrafts()).toBe(true)
  for (const name of ['r2', 'r20', 'r10', 'talk', 'one']) forgetDrafts(name)
  expect(hasDrafts()).toBe(false)
})

it('keeps a newer text when a field that is gone learns that its own was sent', () => {
  let sent: () => void = () => undefined
  const Field = () => {
    const [, setText] = useDraft('chat')
    sent = () => setText((now) => (now === 'first' ? '' : now))
    return null
  }
  write('chat', 'first')
  const root = createRoot(document.createElement('div'))
  act(() => root.render(<Field />))
  act(() => root.unmount())
  write('chat', 'second')
  sent()
  expect(write('chat', undefined)).toBe('second')
})
