import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, it, vi } from 'vitest'
import { Diff } from './Diff'
import { GivenUp } from './DiffLines'

vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true)

it('folds unchanged lines until they are wanted, and marks what changed without a colour', () => {
  const root = document.body.appendChild(document.createElement('div'))
  const before = { rules: Array.from({ length: 20 }, (_, index) => `rule ${index}`), prompt: 'Answer in one sentence.' }
  act(() => createRoot(root).render(<Diff before={before} after={{ ...before, prompt: 'Answer in two sentences.' }} />))
  expect(root.textContent).not.toContain('rule 3"')
  expect(root.textContent).toContain('rule 18')
  expect([...root.querySelectorAll('u')].map((one) => one.textContent)).toEqual(['one', 'sentence', 'two', 'sentences'])
  expect(root.textContent).toMatch(/−removed: .*\+added: /)
  const button = root.querySelector('button')!
  expect([button.textContent, button.ariaExpanded ?? button.getAttribute('aria-expanded')]).toEqual(['Show 20 unchanged lines', 'false'])
  act(() => button.click())
  expect([button.textContent, button.getAttribute('aria-expanded')]).toEqual(['Hide 20 unchanged lines', 'true'])
  expect(root.textContent).toContain('rule 3"')
})

it('says that comparing was given up where too many lines differ', () => {
  const line = { kind: 'added', text: 'new' } as const
  expect(renderToStaticMarkup(<GivenUp lines={[line, { ...line, isWhole: true }]} />)).toContain('Too many lines differ')
  expect(renderToStaticMarkup(<GivenUp lines={[line]} />)).toBe('')
})
