import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, it, vi } from 'vitest'
import { lazyPart } from './lazy-part'
import { OtherFiles } from './load-parts'

const { reload, importUntilLoaded } = vi.hoisted(() => ({ reload: vi.fn(), importUntilLoaded: vi.fn() }))
vi.mock('./load-parts', async (original) => ({ ...(await original<object>()), reload, importUntilLoaded }))
Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true })

async function show(onClose = () => {}) {
  document.body.innerHTML = '<div id="root"></div>'
  const Part = lazyPart<{ onClose: () => void }>(async () => () => <p>The dialog</p>)
  const root = createRoot(document.querySelector('#root')!)
  await act(async () => root.render(<Part onClose={onClose} />))
}
const button = (name: string) => [...document.querySelectorAll('button')].find((one) => one.textContent === name)!

it('says that a dialog is loading, and shows it', async () => {
  let arrive: (part: unknown) => void
  importUntilLoaded.mockReturnValueOnce(new Promise((resolve) => (arrive = resolve)))
  await show()
  expect(document.querySelector('[role=status]')?.textContent).toMatch(/^Loading/)
  await act(async () => arrive!(() => <p>The dialog</p>))
  expect(document.body.textContent).toBe('The dialog')
})

it('offers to reload when the server has other files, and leaves the page as it is', async () => {
  importUntilLoaded.mockRejectedValueOnce(new OtherFiles())
  const onClose = vi.fn()
  await show(onClose)
  expect(document.body.textContent).toContain('replaced by another version')
  act(() => button('Reload').click())
  expect(reload).toHaveBeenCalledOnce()
  act(() => button('Not now').click())
  expect(onClose).toHaveBeenCalledOnce()
})
