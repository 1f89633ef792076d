import { act, useState } from 'react'
import { createRoot, type Root } from 'react-dom/client'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { NumberField } from './NumberField'
import { submits } from './submits'

let root: Root
let saved: (number | null)[]

function Form() {
  const [value, setValue] = useState<number | null>(90_000)
  return (
    <form noValidate onSubmit={submits(() => saved.push(value))}>
      <details>
        <NumberField label="Tokens" whole value={value} onChange={setValue} />
      </details>
      <button type="button" onClick={() => setValue(7)}>Somebody else</button>
    </form>
  )
}

const input = () => document.querySelector('input')!
const type = (text: string) =>
  act(() => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!.set!.call(input(), text)
    input().dispatchEvent(new Event('input', { bubbles: true }))
  })
const submit = () => act(() => void document.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true })))

beforeEach(() => {
  ;(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true
  saved = []
  root = createRoot(document.body.appendChild(document.createElement('div')))
  act(() => root.render(<Form />))
})
afterEach(() => {
  act(() => root.unmount())
  document.body.textContent = ''
})

it('never saves a text that is no number, neither as nothing nor as the number before', () => {
  for (const text of ['80000-', '8e4', '80 000', 'many', '1.5', '90.000', '9007199254740993']) {
    type(text)
    submit()
    expect(saved, text).toEqual([])
    expect(input().value, text).toBe(text)
    expect(document.querySelector('p')!.textContent, text).toMatch(/^(This is no whole number|Use )/)
  }
  type('80,000')
  submit()
  type('')
  submit()
  expect(saved).toEqual([80_000, null])
})

it('shows the field that is wrong, also when it is folded away', () => {
  type('80000-')
  expect(document.querySelector('details')!.open).toBe(false)
  submit()
  expect(document.querySelector('details')!.open).toBe(true)
  expect(document.activeElement).toBe(input())
})

it('keeps what is typed as it is, and shows a number that somebody else sets', () => {
  type('70,000')
  expect(input().value).toBe('70,000')
  act(() => document.querySelector('button')!.click())
  expect(input().value).toBe('7')
})

it('says whether its text is no number', () => {
  const told: boolean[] = []
  act(() => root.render(<NumberField label="Days" value={null} onChange={() => undefined} onBroken={(is) => told.push(is)} />))
  for (const text of ['80', '80-', '']) type(text)
  expect(told).toEqual([false, true, false])
})
