import { Ban, ChevronRight, Wrench } from 'lucide-react'
import { useState } from 'react'
import { Badge, Status } from '~/ui/Badge'
import { JsonView } from '~/ui/JsonView'
import { WithCode } from '~/ui/WithCode'
import { classes } from '~/util/classes'
import { jsonText } from '~/util/json'

type Props = { tool: string; status: string; input: unknown; output: unknown; error?: string | null | undefined; denied?: boolean | undefined; truncated?: boolean | undefined }

/** A tool call as one line that opens to its input and output. */
export function ToolCallView({ tool, status, input, output, error, denied, truncated }: Props) {
  const [isOpen, setOpen] = useState(false)
  return (
    <div className="my-2 rounded-md border border-line bg-surface">
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} className="flex w-full items-center gap-2 px-3 py-1.5 text-left hover:bg-hover">
        <ChevronRight aria-hidden size={14} className={classes('shrink-0 text-text-3 transition-transform', isOpen && 'rotate-90')} />
        <Wrench aria-hidden size={14} className="shrink-0 text-text-2" />
        <code className="min-w-0 flex-1 truncate font-mono text-xs">
          {tool} <span className="text-text-2">{input === undefined || input === null ? '' : jsonText(input).slice(0, 120)}</span>
        </code>
        {denied ? (
          <Badge icon={<Ban aria-hidden size={12} strokeWidth={2.25} className="shrink-0" />}>Denied</Badge>
        ) : (
          <Status status={status === 'started' || status === 'running' ? 'running' : status === 'held' ? 'waiting' : status === 'error' ? 'failed' : status} />
        )}
      </button>
      {isOpen && (
        <div className="space-y-2 border-t border-line p-3">
          {error && <p className={denied ? 'text-text-2' : 'text-fail'}><WithCode text={error} /></p>}
          <p className="text-xs font-medium text-text-2">Input</p>
          <JsonView value={input ?? null} />
          {output !== undefined && output !== null && (
            <>
              <p className="text-xs font-medium text-text-2">Output{truncated && ', cut: the run has all of it'}</p>
              <JsonView value={output} open={1} />
            </>
          )}
        </div>
      )}
    </div>
  )
}
