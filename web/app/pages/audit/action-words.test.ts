import { expect, it } from 'vitest'
import { actionWords } from './action-words'

it('says what was done', () => {
  const actions = ['token.create', 'token.revoke', 'trigger.put', 'budget.update', 'session.create', 'session.end', 'mcp_server.delete', 'mcp_server.accept_tool', 'run.bulk_cancel', 'approval.decide', 'product.install', 'workflow.cancel', 'workflow.take_over', 'task.retry', 'task.skip']
  expect(actions.map(actionWords)).toEqual(['Token created', 'Token revoked', 'Trigger changed', 'Budget changed', 'Session created', 'Session ended', 'MCP server deleted', 'MCP server tool accepted', 'Run selection cancelled', 'Approval decided', 'Product installed', 'Workflow cancelled', 'Workflow taken over', 'Task retried', 'Task skipped'])
})

it('names an action that is not known yet', () => {
  expect(actionWords('report.export')).toBe('Report exported')
})
