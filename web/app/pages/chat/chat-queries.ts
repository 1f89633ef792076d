import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, unwrap, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import type { Schemas } from '~/api/types'

export type Conversation = Schemas['Conversation']
export type ChatMessage = Schemas['ChatMessage']

export const conversationsQuery = (q: string | undefined) =>
  infiniteQueryOptions({
    queryKey: [...keys.conversations, 'list', q ?? null],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => unwrapPage(api.GET('/api/chat/conversations', { params: { query: { q, limit: 50, cursor: pageParam } }, signal })),
    getNextPageParam: (page) => page.cursor,
  })

export const conversationQuery = (conversationId: string) =>
  queryOptions({
    queryKey: [...keys.conversation(conversationId), 'facts'],
    queryFn: ({ signal }) => unwrap(api.GET('/api/chat/conversations/{conversationId}', { params: { path: { conversationId } }, signal })),
  })

/** All messages of a conversation: they are a tree, because an edited message begins a branch. */
export const messagesQuery = (conversationId: string) =>
  queryOptions({
    queryKey: [...keys.conversation(conversationId), 'messages'],
    queryFn: async ({ signal }) => {
      const all: ChatMessage[] = []
      let cursor: string | undefined
      do {
        const page = await unwrapPage(api.GET('/api/chat/conversations/{conversationId}/messages', { params: { path: { conversationId }, query: { limit: 100, cursor } }, signal }))
        all.push(...page.items)
        cursor = page.cursor
      } while (cursor)
      return all
    },
  })
