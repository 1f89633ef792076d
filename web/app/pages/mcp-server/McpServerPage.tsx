import { PageHeader } from '~/ui/PageHeader'

export function McpServerPage() {
  return <PageHeader title="MCP server" />
}
