import { PageHeader } from '~/ui/PageHeader'

export function McpServersPage() {
  return <PageHeader title="MCP servers" />
}
