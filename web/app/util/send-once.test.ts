import { expect, it } from 'vitest'
import { ApiError } from '~/api/errors'
import { forgetSent, sendOnce } from './send-once'

type Sent = { body: unknown; key: string }

/** Sends a request that gets these answers, one after the other. */
async function sendAll(name: string, bodies: unknown[], answers: (Error | string)[]): Promise<Sent[]> {
  const seen: Sent[] = []
  for (const [index, body] of bodies.entries()) {
    const answer = answers[index]!
    const sending = sendOnce(name, body, (one, key) => {
      seen.push({ body: one, key })
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)
    })
    if (answer instanceof Error) await expect(sending).rejects.toBe(answer)
    else expect(await sending).toBe(answer)
  }
  return seen
}

it('sends the same request with the same key until it has an answer', async () => {
  const lost = [ApiError.unreachable(), new ApiError(502, 'unknown', 'bad gateway'), new ApiError(409, 'idempotency_key_in_progress', 'wait')]
  const [first, ...next] = await sendAll('lost', [{ parentId: 'a' }, { parentId: 'b' }, { parentId: 'b' }, { parentId: 'c' }, { parentId: 'd' }], [...lost, 'done', 'done'])
  for (const again of next.slice(0, 3)) expect(again).toEqual(first)
  expect(next[3]).toMatchObject({ body: { parentId: 'd' } })
  expect(next[3]?.key).not.toBe(first?.key)
})

it('sends another request after one that was refused', async () => {
  const [first, second] = await sendAll('refused', ['a', 'b'], [new ApiError(400, 'invalid', 'no'), 'done'])
  expect(second?.body).toBe('b')
  expect(second?.key).not.toBe(first?.key)
})

it('sends another request after its text was changed', async () => {
  const [first] = await sendAll('changed', ['yes'], [ApiError.unreachable()])
  forgetSent('changed')
  const [second] = await sendAll('changed', ['yes'], ['done'])
  expect(second?.key).not.toBe(first?.key)
})
