import { expect, it } from 'vitest'
import type { ChatMessage } from '~/pages/chat/chat-queries'
import { branchOf } from './branches'

const said = (id: string, parentId: string | null, at: number, role = 'user') => ({ id, parentId, role, createdAt: `2026-11-17T08:00:0${at}Z` }) as ChatMessage
const TREE = [said('q1', null, 0), said('a1', 'q1', 1, 'assistant'), said('q2', 'a1', 2), said('a2', 'q2', 3, 'assistant'), said('q1b', null, 4), said('a1b', 'q1b', 5, 'assistant')]
const ids = (through?: string) => branchOf(TREE, through).map(({ message }) => message.id)

it('shows the newest branch, and another one on demand with all that follows', () => {
  expect(ids()).toEqual(['q1b', 'a1b'])
  expect(ids('q1')).toEqual(['q1', 'a1', 'q2', 'a2'])
  expect(ids('gone')).toEqual(['q1b', 'a1b'])
})

it('counts the branches of a message', () => {
  expect(branchOf(TREE, 'q1')[0]).toMatchObject({ siblings: ['q1', 'q1b'], position: 0 })
  expect(branchOf(TREE, 'q1')[2]).toMatchObject({ siblings: ['q2'], position: 0 })
})

it('shows nothing of nothing', () => {
  expect(branchOf([], undefined)).toEqual([])
})
