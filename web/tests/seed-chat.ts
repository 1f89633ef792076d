// Agents to talk to, and what was said to them.
import { rehearsal, writeScripts } from './seed'
import type { Server } from './server'

type Agent = { name: string; [more: string]: unknown }

/** Agents with the scripts that stand for their models, and a note that one of them may want to delete. Returns ids by name. */
export async function seedChat(server: Server, scripts: Record<string, string>, agents: Agent[]): Promise<Record<string, string>> {
  writeScripts(server, scripts)
  await server.api('POST', '/api/graph/objects', { type: 'Note', key: 'outdated', properties: { title: 'Opening hours of 2024' } })
  const ids: Record<string, string> = {}
  for (const agent of agents) ids[agent.name] = (await server.api<{ id: string }>('POST', '/api/admin/agents', { systemPrompt: 'You help.', model: rehearsal(agent.name), ...agent })).id
  return ids
}

/** What asks before it deletes the note. */
export const ASKS = { tools: ['entities_*'], approvals: [{ tools: ['entities_delete'], action: 'ask' }] }

/** Sends a message, waits for the end of its answer, and returns the conversation. */
export async function say(server: Server, body: object): Promise<string> {
  const response = await fetch(`${server.url}/api/chat/stream`, { method: 'POST', headers: { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' }, body: JSON.stringify(body) })
  return /"conversationId":"([^"]+)"/.exec(await response.text())![1]!
}

export const conversationOf = (url: string) => /chat\/([0-9a-f-]{36})/.exec(url)![1]!
