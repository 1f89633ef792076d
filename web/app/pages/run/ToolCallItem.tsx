import { useQuery } from '@tanstack/react-query'
import { Ban, ChevronRight, CircleCheck, CircleHelp, CircleX, Hourglass, LoaderCircle } from 'lucide-react'
import { useEffect, useState } from 'react'
import { ErrorState } from '~/ui/ErrorState'
import { JsonView } from '~/ui/JsonView'
import { SkeletonRows } from '~/ui/Skeleton'
import { classes } from '~/util/classes'
import { formatDuration } from '~/util/format'
import { callQuery, type RunDetail } from './run-queries'
import type { CallItem } from './run-record'
import { Clock } from './TranscriptItem'

const ICONS = {
  completed: [CircleCheck, 'text-ok', 'completed'],
  error: [CircleX, 'text-fail', 'failed'],
  denied: [Ban, 'text-text-3', 'denied'],
  running: [LoaderCircle, 'text-run animate-spin', 'running'],
  held: [Hourglass, 'text-wait', 'waits for a person'],
  not_made: [Ban, 'text-text-3', 'not made'],
  unknown: [CircleHelp, 'text-text-3', 'interrupted'],
} as const

const UNFINISHED = { not_made: 'The run ended before anybody decided, so the call was not made.', unknown: 'The run ended during the call. Whether it took effect is not known.' }

/** A tool call on one line. Its input and output are loaded when somebody opens it. */
export function ToolCallItem({ item, run, isSelected }: { item: CallItem; run: RunDetail; isSelected: boolean }) {
  const [isOpen, setOpen] = useState(isSelected)
  useEffect(() => {
    if (isSelected) setOpen(true)
  }, [isSelected])
  const [Icon, colour, word] = ICONS[item.denied ? 'denied' : (item.unfinished ?? item.status)]
  return (
    <div className="px-4 py-1">
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} className="flex h-7 w-full min-w-0 items-center gap-2 rounded-sm text-left hover:text-accent-text">
        <ChevronRight aria-hidden size={14} className={classes('shrink-0 text-text-3 transition-transform', isOpen && 'rotate-90')} />
        <Icon aria-hidden size={14} className={classes('shrink-0', colour)} />
        <span className="font-mono text-xs font-medium whitespace-nowrap">{item.toolName}</span>
        <span className="sr-only">{word}</span>
        <span className="min-w-0 flex-1 truncate font-mono text-xs text-text-2 max-sm:opacity-0">{item.preview}</span>
        <span className="text-xs whitespace-nowrap text-text-2">{!item.denied && item.durationMs !== null && item.durationMs !== undefined ? formatDuration(item.durationMs) : word}</span>
        <span className="max-sm:hidden">
          <Clock at={item.at} />
        </span>
      </button>
      {isOpen && <Values item={item} run={run} />}
    </div>
  )
}

function Values({ item, run }: { item: CallItem; run: RunDetail }) {
  const { data, error, refetch } = useQuery({ ...callQuery(run.agentId, run.id, item.id), staleTime: item.endedAt === undefined ? 0 : Infinity })
  const isOver = item.endedAt !== undefined
  // A call that was opened while it ran has its result now.
  useEffect(() => {
    if (isOver && data && data.status !== item.status) void refetch()
  }, [isOver, data, item.status, refetch])
  if (error) return <ErrorState error={error} what="The call could not be loaded." onRetry={() => void refetch()} />
  if (!data) return <SkeletonRows rows={2} />
  return (
    <div className="grid gap-3 pt-1 pb-2 pl-5.5 lg:grid-cols-2">
      <div className="min-w-0">
        <h3 className="mb-1 text-xs font-medium text-text-2">Input</h3>
        <JsonView value={data.input} />
      </div>
      <div className="min-w-0">
        <h3 className="mb-1 text-xs font-medium text-text-2">{data.denied ? 'Denied' : data.status === 'error' ? 'Error' : 'Output'}</h3>
        {data.output === null || data.output === undefined ? <p className="text-text-2">{item.unfinished ? UNFINISHED[item.unfinished] : isOver ? 'There is no output.' : 'It is not over yet.'}</p> : <JsonView value={data.output} open={3} />}
      </div>
    </div>
  )
}
