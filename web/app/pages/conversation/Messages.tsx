import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ChevronLeft, ChevronRight, Pencil, RefreshCw } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { Status } from '~/ui/Badge'
import { IconButton } from '~/ui/Button'
import { CopyButton } from '~/ui/CopyButton'
import { Markdown } from '~/ui/Markdown'
import { Money, RelativeTime, Tokens } from '~/ui/Values'
import type { Shown } from './branches'
import { Composer } from './Composer'
import type { LiveAnswer } from './live-answer'
import { Sources } from './Sources'
import { ToolCallView } from './ToolCallView'

type QuestionProps = { shown: Shown; onSwitch: (id: string) => void; onEdit: (text: string) => Promise<unknown>; isBusy: boolean; disabledReason: string | undefined }

/** A message of a person, with its branches and a pencil that begins another. */
export function Question({ shown: { message, siblings, position }, onSwitch, onEdit, isBusy, disabledReason }: QuestionProps) {
  const [isEditing, setEditing] = useState(false)
  if (isEditing) {
    return <Composer label="Edit the message" placeholder="Your message" initial={message.content} autoFocus isSending={isBusy} sendLabel="Send as a branch" onCancel={() => setEditing(false)} onSend={(text) => onEdit(text).then(() => setEditing(false))} />
  }
  return (
    <article aria-label="Message" className="group ml-auto w-fit max-w-[85%]">
      <div className="rounded-2xl rounded-br-sm bg-accent-soft px-3.5 py-2 text-base leading-6 break-words whitespace-pre-wrap">{message.content}</div>
      <div className="mt-1 flex items-center justify-end gap-1 text-xs text-text-2">
        {message.status === 'queued' && <Status status="queued" />}
        {siblings.length > 1 && (
          <span className="flex items-center">
            <IconButton size="sm" label="Earlier branch" disabledReason={position === 0 ? 'This is the first branch.' : undefined} onClick={() => onSwitch(siblings[position - 1]!)}>
              <ChevronLeft aria-hidden size={14} />
            </IconButton>
            {position + 1} / {siblings.length}
            <IconButton size="sm" label="Later branch" disabledReason={position === siblings.length - 1 ? 'This is the newest branch.' : undefined} onClick={() => onSwitch(siblings[position + 1]!)}>
              <ChevronRight aria-hidden size={14} />
            </IconButton>
          </span>
        )}
        <RelativeTime at={message.createdAt} />
        <IconButton size="sm" label="Edit the message" disabledReason={disabledReason} onClick={() => setEditing(true)}>
          <Pencil aria-hidden size={14} />
        </IconButton>
      </div>
    </article>
  )
}

type AnswerProps = { shown: Shown; agentId: string | null | undefined; live: LiveAnswer | undefined; onRegenerate: (() => void) | undefined; disabledReason: string | undefined }

/** A stored answer: its text, its sources, its calls, and what it needed. */
export function Answer({ shown: { message }, agentId, live, onRegenerate, disabledReason }: AnswerProps) {
  const tools = live?.parts.filter((part) => part.kind === 'tool') ?? []
  return (
    <article aria-label="Answer" className="min-w-0">
      {tools.length > 0 ? tools.map((part) => <ToolCallView key={part.toolCallId} tool={part.tool} status={part.status} input={part.input} output={part.result} error={part.error} truncated={part.truncated} />) : !live && message.runId && agentId && <StoredCalls agentId={agentId} runId={message.runId} />}
      {message.content && <Markdown text={message.content} />}
      {message.status !== 'completed' && (
        <p className="mt-2 flex flex-wrap items-center gap-2">
          <Status status={message.status === 'stopped' ? 'cancelled' : message.status} detail={message.reason} />
          {message.status === 'stopped' && <span className="text-text-2">Stopped. The text so far is the answer.</span>}
          {message.error && <span className="break-words text-fail">{message.error}</span>}
        </p>
      )}
      <Sources citations={message.citations ?? []} passages={message.retrievalContext?.passages ?? []} />
      <div className="mt-1.5 flex flex-wrap items-center gap-x-3 text-xs text-text-2">
        <RelativeTime at={message.createdAt} />
        {message.usage && (
          <span>
            <Tokens input={message.usage.inputTokens} output={message.usage.outputTokens} /> tokens · <Money usd={message.usage.cost} />
          </span>
        )}
        {message.runId && (
          <Link to="/runs/$runId" params={{ runId: message.runId }} className="rounded-sm text-accent-text hover:underline">
            Run
          </Link>
        )}
        <span className="flex">
          <CopyButton text={message.content} label="Copy the answer" />
          {onRegenerate && (
            <IconButton size="sm" label="Answer again" disabledReason={disabledReason} onClick={onRegenerate}>
              <RefreshCw aria-hidden size={14} />
            </IconButton>
          )}
        </span>
      </div>
    </article>
  )
}

/** The calls of an answer from the record of its run, read when somebody wants to see them. */
function StoredCalls({ agentId, runId }: { agentId: string; runId: string }) {
  const [wanted, setWanted] = useState(false)
  const { allowed } = useScope('admin:read')
  const { data, error } = useQuery({
    queryKey: [...keys.run(runId), 'chat-calls'],
    enabled: wanted && allowed,
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/agents/{agentId}/runs/{runId}/tool-calls', { params: { path: { agentId, runId }, query: { limit: 50 } }, signal })),
  })
  if (!allowed) return null
  if (!wanted) {
    return (
      <button type="button" onClick={() => setWanted(true)} className="mb-1 rounded-sm text-xs text-text-2 hover:underline">
        Show tool calls
      </button>
    )
  }
  if (error) return <p className="text-xs text-fail">The calls could not be loaded: {error.message}</p>
  if (data?.length === 0) return <p className="mb-1 text-xs text-text-2">It called no tool.</p>
  return data?.map((call) => <ToolCallView key={call.id} tool={call.toolName} status={call.status} input={call.input} output={call.output} />)
}

/** The answer while it is written: text and calls in the order in which they come. */
export function LiveView({ live }: { live: LiveAnswer }) {
  const isEmpty = live.parts.length === 0
  return (
    <article aria-label="Answer that is being written" aria-busy={!live.isDone} className="min-w-0">
      {live.parts.map((part) =>
        part.kind === 'text' ? <Markdown key={`text-${part.step}`} text={part.text} /> : <ToolCallView key={part.toolCallId} tool={part.tool} status={part.approvalId && part.status === 'started' ? 'waiting' : part.status} input={part.input} output={part.result} error={part.error} truncated={part.truncated} />,
      )}
      {live.error && <p className="text-fail">{live.error}</p>}
      {!live.isDone && <p className="animate-breathe mt-1 text-text-2">{live.meta.queued ? 'Waits for its turn…' : isEmpty ? 'Thinking…' : 'Writing…'}</p>}
    </article>
  )
}
