import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, it, vi } from 'vitest'
import { LimitDialog } from './LimitDialog'

vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true)
const { get, put } = vi.hoisted(() => ({ get: vi.fn(), put: vi.fn() }))
vi.mock('~/api/client', async (original) => ({ ...(await original<object>()), api: { GET: get, PUT: put } }))

/** Types a text as a browser does, so that React sees it. */
function type(element: HTMLInputElement | HTMLSelectElement, text: string) {
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(element), 'value')!.set!.call(element, text)
  element.dispatchEvent(new Event('input', { bubbles: true }))
  element.dispatchEvent(new Event('change', { bubbles: true }))
}
const fieldOf = (label: string) => document.getElementById([...document.querySelectorAll('label')].find((one) => one.textContent === label)!.htmlFor) as HTMLInputElement

it('keeps the limit that nobody changed, of the agent that is chosen', async () => {
  const answer = (data: unknown) => Promise.resolve({ data: { data }, response: new Response() })
  get.mockReturnValue(answer([{ name: 'writer' }]))
  put.mockReturnValue(answer({}))
  const rows = [{ limit: { usd: 20 } }, { agent: 'writer', limit: { usd: 2, tokens: 60_000 } }]
  await act(async () => {
    const root = createRoot(document.body.appendChild(document.createElement('div')))
    root.render(<QueryClientProvider client={new QueryClient()}><LimitDialog rows={rows} of={undefined} disabledReason={undefined} onClose={() => undefined} /></QueryClientProvider>)
  })
  expect(fieldOf('US dollars').value).toBe('20')
  await act(async () => type(fieldOf('US dollars'), '5'))
  await act(async () => type(fieldOf('Of'), 'writer'))
  expect([fieldOf('US dollars').value, fieldOf('Tokens').value]).toEqual(['5', '60000'])
  await act(async () => document.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true })))
  expect(put.mock.calls[0]?.[1]).toEqual({ body: { agent: 'writer', usd: 5, tokens: 60_000 } })
})
