/** The agent of a new conversation: the one of the URL, else the default one of the project, as `emergent chat` has it. */
export const agentToAsk = <Agent extends { name: string; isDefault: boolean }>(agents: Agent[], wanted: string | undefined): Agent | undefined =>
  agents.find(({ name }) => name === wanted) ?? agents.find(({ isDefault }) => isDefault) ?? agents.find(({ name }) => name === 'graph-query-agent') ?? agents[0]
