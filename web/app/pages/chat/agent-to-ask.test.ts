import { expect, it } from 'vitest'
import { agentToAsk } from './agent-to-ask'

const agent = (name: string, isDefault = false) => ({ name, isDefault })

it('asks the default agent unless the URL names another', () => {
  const agents = [agent('archivist'), agent('graph-query-agent'), agent('research-assistant', true)]
  expect(agentToAsk(agents, undefined)?.name).toBe('research-assistant')
  expect(agentToAsk(agents, 'archivist')?.name).toBe('archivist')
  expect(agentToAsk(agents, 'deleted')?.name).toBe('research-assistant')
  expect(agentToAsk(agents.slice(0, 2), undefined)?.name).toBe('graph-query-agent')
  expect(agentToAsk(agents.slice(0, 1), undefined)?.name).toBe('archivist')
  expect(agentToAsk([], undefined)).toBeUndefined()
})
