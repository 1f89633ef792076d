import { expect, it } from 'vitest'
import type { ChatFrame } from '~/api/chat'
import { type LiveAnswer, withFrame } from './live-answer'

const META = { type: 'meta', conversationId: 'c', messageId: 'm', answerId: 'a', queued: false, title: 'T', passages: [] } as ChatFrame
const all = (...frames: ChatFrame[]) => [META, ...frames].reduce<LiveAnswer | undefined>(withFrame, undefined)!
const token = (step: number, text: string, replace = false) => ({ type: 'token', step, text, replace }) as ChatFrame

it('joins the pieces of a step, and replaces them when the model was asked again', () => {
  expect(all(token(1, 'Hel'), token(1, 'lo')).parts).toEqual([{ kind: 'text', step: 1, text: 'Hello' }])
  expect(all(token(1, 'Hel'), token(1, 'Good day', true)).parts).toEqual([{ kind: 'text', step: 1, text: 'Good day' }])
})

it('keeps calls where they happened, with their input after their result', () => {
  const parts = all(token(1, 'I look.'), { type: 'mcp_tool', tool: 'search', toolCallId: 't', status: 'started', input: { q: 1 } } as ChatFrame, token(2, 'Found.'), { type: 'mcp_tool', tool: 'search', toolCallId: 't', status: 'completed', result: [] } as ChatFrame).parts
  expect(parts.map(({ kind }) => kind)).toEqual(['text', 'tool', 'text'])
  expect(parts[1]).toMatchObject({ status: 'completed', input: { q: 1 }, result: [] })
})

it('begins again with each meta frame', () => {
  expect(withFrame(all(token(1, 'x')), META)).toMatchObject({ parts: [], isDone: false })
})

it('tells a call that was denied from one that failed', () => {
  const ended = (more: object) => all({ type: 'mcp_tool', tool: 'send', toolCallId: 't', status: 'error', error: 'A person denied this call.', ...more } as ChatFrame).parts[0]
  expect(ended({ denied: true })).toMatchObject({ status: 'error', denied: true })
  expect(ended({})).not.toHaveProperty('denied')
})
