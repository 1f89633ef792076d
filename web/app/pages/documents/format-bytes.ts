export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KiB`
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}

const KINDS: Record<string, string> = { 'text/plain': 'Text', 'text/markdown': 'Markdown', 'text/html': 'HTML', 'application/pdf': 'PDF' }
export const kindOf = (mimeType: string) => KINDS[mimeType] ?? mimeType
