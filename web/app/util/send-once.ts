// Requests that start work, when their answer is lost: sent again they have to be the same requests.
import { ApiError } from '~/api/errors'
import { randomKey } from './random-key'

const sent = new Map<string, { body: unknown; key: string }>()

/** Whether the server said that it did not accept a request, so that its key is not stored. */
const isRefused = (error: unknown) => error instanceof ApiError && error.status >= 400 && error.status < 500 && error.code !== 'idempotency_key_in_progress'

/**
 * Sends a request with a key. While nobody knows whether it arrived, the next request of the same name is the same
 * one, with the same key: the server does the work once and answers both.
 */
export async function sendOnce<B, T>(name: string, body: B, send: (body: B, key: string) => Promise<T>): Promise<T> {
  const request = sent.get(name) ?? { body, key: randomKey() }
  sent.set(name, request)
  // The text may be changed, and sent, while this request waits for its answer.
  const forget = () => void (sent.get(name) === request && sent.delete(name))
  try {
    const answer = await send(request.body as B, request.key)
    forget()
    return answer
  } catch (error) {
    if (isRefused(error)) forget()
    throw error
  }
}

/** Whoever changes a text means another request by it, also when it becomes the same text again. */
export const forgetSent = (name: string) => void sent.delete(name)
