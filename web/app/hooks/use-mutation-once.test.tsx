import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, it, vi } from 'vitest'
import { useMutationOnce } from './use-mutation-once'

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true })

function mounted(mutationFn: () => Promise<unknown>) {
  let save: { mutate: () => void; reset: () => void } | undefined
  const Form = () => {
    save = useMutationOnce({ mutationFn })
    return null
  }
  const client = new QueryClient({ defaultOptions: { mutations: { retry: false } } })
  act(() => createRoot(document.createElement('div')).render(<QueryClientProvider client={client}><Form /></QueryClientProvider>))
  return { mutate: () => save!.mutate(), reset: () => save!.reset() }
}

/** What the library tells, it tells a moment later. */
const drawn = () => act(() => new Promise((resolve) => setTimeout(resolve, 5)))

it('sends once, also when nothing was drawn between two presses of Enter', async () => {
  const send = vi.fn(() => new Promise(() => {}))
  const form = mounted(send)
  await act(async () => {
    form.mutate()
    form.mutate()
  })
  await drawn()
  await act(async () => form.mutate())
  expect(send).toHaveBeenCalledOnce()
  // Whoever changed what is sent sends something else.
  await act(async () => form.reset())
  await drawn()
  await act(async () => form.mutate())
  expect(send).toHaveBeenCalledTimes(2)
})

it('sends again after an answer and after a failure', async () => {
  const send = vi.fn().mockResolvedValueOnce('saved').mockRejectedValueOnce(new Error('no')).mockResolvedValue('saved')
  const form = mounted(send)
  for (let count = 1; count <= 3; count++) {
    await act(async () => form.mutate())
    await drawn()
    expect(send).toHaveBeenCalledTimes(count)
  }
})
