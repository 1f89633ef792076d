import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { afterEach, expect, it, vi } from 'vitest'
import type { Item } from './inbox-state'
import { type Decide, useDecide } from './use-decide'

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true })
const { post } = vi.hoisted(() => ({ post: vi.fn() }))
vi.mock('~/api/client', async (original) => ({ ...(await original<object>()), api: { POST: post } }))
afterEach(() => post.mockReset())

const item = { id: 'a', kind: 'escalation', title: 'A workflow waits.', status: 'pending' } as unknown as Item
const DENY = { decision: 'deny', told: 'Done.' } as const

function mounted(): { decide: () => Decide } {
  let decide: Decide | undefined
  const Form = () => {
    decide = useDecide(item, () => undefined)
    return null
  }
  const client = new QueryClient({ defaultOptions: { mutations: { retry: false } } })
  act(() => createRoot(document.createElement('div')).render(<QueryClientProvider client={client}><Form /></QueryClientProvider>))
  return { decide: () => decide! }
}

it('sends a decision once, however soon the keys are pressed again', async () => {
  post.mockReturnValue(new Promise(() => {}))
  const form = mounted()
  await act(async () => {
    // Nothing was drawn between the two.
    form.decide().mutate(DENY)
    form.decide().mutate(DENY)
  })
  expect(post).toHaveBeenCalledTimes(1)
})

it('can be sent again after it failed', async () => {
  post.mockRejectedValue(new TypeError('Failed to fetch'))
  const form = mounted()
  await act(async () => form.decide().mutate(DENY))
  await act(async () => form.decide().mutate(DENY))
  expect(post).toHaveBeenCalledTimes(2)
})
