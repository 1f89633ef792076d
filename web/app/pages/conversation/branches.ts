// The branches of a conversation. Messages are a tree; one path from its root to a leaf is shown.
import type { ChatMessage } from '~/pages/chat/chat-queries'

export type Shown = { message: ChatMessage; siblings: string[]; position: number }

const ROOT = ''

/** The path through a message down to its newest continuation; without one, the path to the newest message. */
export function branchOf(messages: readonly ChatMessage[], through: string | undefined): Shown[] {
  const byId = new Map(messages.map((message) => [message.id, message]))
  const children = new Map<string, ChatMessage[]>()
  for (const message of messages) {
    const parent = message.parentId ?? ROOT
    const list = children.get(parent)
    if (list) list.push(message)
    else children.set(parent, [message])
  }
  for (const list of children.values()) list.sort((a, b) => a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id))
  const newest = messages.reduce<ChatMessage | undefined>((best, message) => (!best || message.createdAt >= best.createdAt ? message : best), undefined)
  let at: ChatMessage | undefined = (through ? byId.get(through) : undefined) ?? newest
  const path: ChatMessage[] = []
  for (let up = at; up; up = up.parentId ? byId.get(up.parentId) : undefined) path.unshift(up)
  for (at = at && children.get(at.id)?.at(-1); at; at = children.get(at.id)?.at(-1)) path.push(at)
  return path.map((message) => {
    const siblings = (children.get(message.parentId ?? ROOT) ?? []).filter(({ role }) => role === message.role).map(({ id }) => id)
    return { message, siblings, position: siblings.indexOf(message.id) }
  })
}
