import { QueryClient, QueryClientProvider, useQuery } from '@tanstack/react-query'
import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, it, vi } from 'vitest'
import { secretsQuery } from '~/api/queries'
import { SetDialog } from './SetDialog'

vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true)
const { get, put } = vi.hoisted(() => ({ get: vi.fn(), put: vi.fn() }))
vi.mock('~/api/client', async (original) => ({ ...(await original<object>()), api: { GET: get, PUT: put } }))

const answer = (data: unknown) => Promise.resolve({ data: { data }, response: new Response() })
/** Types a text as a browser does, so that React sees it. */
function type(label: string, text: string) {
  const field = document.getElementById([...document.querySelectorAll('label')].find((one) => one.textContent === label)!.htmlFor) as HTMLInputElement
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!.set!.call(field, text)
  field.dispatchEvent(new Event('input', { bubbles: true }))
}
const submit = () => act(async () => document.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true })))
const shown = () => document.querySelector('[role=dialog]')!.textContent

function Page() {
  return <SetDialog names={useQuery(secretsQuery).data?.map((one) => one.name) ?? []} disabledReason={undefined} onClose={() => undefined} />
}

it('never replaces a value without a word, also not one that somebody else set meanwhile', async () => {
  get.mockReturnValue(answer([{ name: 'OLD' }]))
  put.mockReturnValue(answer({}))
  await act(async () => createRoot(document.body.appendChild(document.createElement('div'))).render(<QueryClientProvider client={new QueryClient()}><Page /></QueryClientProvider>))
  await act(async () => type('Name', 'OLD'))
  expect(shown()).toMatch(/its value is replaced, and cannot be restored.*Replace the secret/)
  await act(async () => type('Name', 'NEW'))
  await act(async () => type('Value', 'abcdefgh'))
  expect(shown()).toContain('Set the secret')
  get.mockReturnValue(answer([{ name: 'OLD' }, { name: 'NEW' }]))
  await submit()
  expect(put).not.toHaveBeenCalled()
  await vi.waitFor(() => act(async () => expect(shown()).toMatch(/Somebody set NEW meanwhile.*Replace the secret/)))
  await submit()
  expect(put.mock.calls[0]?.[1]).toEqual({ params: { path: { name: 'NEW' } }, body: { value: 'abcdefgh' } })
})
