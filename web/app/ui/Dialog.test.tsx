import { QueryClient, QueryClientProvider, useMutation } from '@tanstack/react-query'
import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ApiError } from '~/api/errors'
import { otherProblem, problemAt } from '~/api/problems'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { InlineError } from './ErrorState'
import { Field, Input } from './Field'

vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true)
const revealed = vi.spyOn(HTMLElement.prototype, 'scrollIntoView').mockImplementation(() => undefined)
let failure: ApiError

function Form() {
  const save = useMutation({ mutationFn: () => Promise.reject(failure) })
  return (
    <Dialog open onClose={() => undefined} title="A form" onSubmit={() => save.mutate()} footer={<Button type="submit">Save</Button>}>
      <Field label="Name">{(ids) => <Input {...ids} />}</Field>
      <details>
        <Field label="Limit" problem={problemAt(save.error, 'limit')}>{(ids) => <Input {...ids} name="limit" />}</Field>
      </details>
      <InlineError error={save.error && otherProblem(save.error, ['limit'])} />
    </Dialog>
  )
}

let leave: () => void
beforeEach(async () => {
  revealed.mockClear()
  const root = createRoot(document.body.appendChild(document.createElement('div')))
  await act(async () => root.render(<QueryClientProvider client={new QueryClient()}><Form /></QueryClientProvider>))
  leave = () => act(() => root.unmount())
})
afterEach(() => leave())

const submit = () =>
  act(async () => {
    document.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }))
    await new Promise((resolve) => setTimeout(resolve, 20))
  })

it('brings what the server refused into view, each time', async () => {
  failure = new ApiError(409, 'conflict', 'somebody else was faster')
  await submit()
  await submit()
  expect(revealed.mock.contexts.map((element) => (element as HTMLElement).getAttribute('role'))).toEqual(['alert', 'alert'])
})

it('brings the first field with a problem into view, and opens what it is folded into', async () => {
  failure = new ApiError(400, 'invalid', 'no', [{ field: 'limit', reason: 'is too high' }])
  await submit()
  expect((revealed.mock.contexts[0] as HTMLInputElement).name).toBe('limit')
  expect(document.querySelector('details')?.open).toBe(true)
})
