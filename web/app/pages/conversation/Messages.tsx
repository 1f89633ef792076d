import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ChevronLeft, ChevronRight, Pencil, RefreshCw } from 'lucide-react'
import { useCallback, useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { forgetDrafts, hasDraft } from '~/hooks/use-draft'
import { Rehearsal, Status } from '~/ui/Badge'
import { Button, IconButton } from '~/ui/Button'
import { CopyButton } from '~/ui/CopyButton'
import { Markdown } from '~/ui/Markdown'
import { Money, RelativeTime, Tokens } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { classes } from '~/util/classes'
import type { Shown } from './branches'
import { Composer } from './Composer'
import type { LiveAnswer } from './live-answer'
import { Sources } from './Sources'
import { ToolCallView } from './ToolCallView'

type QuestionProps = { shown: Shown; /** Whether a link led to it. */ isWanted: boolean; onSwitch: (id: string) => void; onEdit: (text: string) => Promise<unknown>; isBusy: boolean; disabledReason: string | undefined }

const WANTED = 'rounded-md outline-2 outline-offset-4 outline-accent'

/** A message of a person, with its branches and a pencil that begins another. */
export function Question({ shown: { message, siblings, position }, isWanted, onSwitch, onEdit, isBusy, disabledReason }: QuestionProps) {
  const draft = `${message.conversationId} ${message.id}`
  const [isEditing, setEditing] = useState(() => hasDraft(draft))
  if (isEditing) {
    const cancel = () => {
      forgetDrafts(draft)
      setEditing(false)
    }
    // Whoever returns to a message that is half edited has the focus where other pages have it.
    return <Composer label="Edit the message" placeholder="Your message" initial={message.content} draft={draft} autoFocus={!hasDraft(draft)} isSending={isBusy} sendLabel="Send as a branch" onCancel={cancel} onSend={(text) => onEdit(text).then(() => setEditing(false))} />
  }
  return (
    <article id={`message-${message.id}`} aria-label="Message" aria-current={isWanted || undefined} className={classes('group ml-auto w-fit max-w-[85%]', isWanted && WANTED)}>
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

type AnswerProps = { shown: Shown; isWanted: boolean; agentId: string | null | undefined; live: LiveAnswer | undefined; onRegenerate: (() => void) | undefined; disabledReason: string | undefined }

/** A stored answer: its text, its sources, its calls, and what it needed. */
export function Answer({ shown: { message }, isWanted, agentId, live, onRegenerate, disabledReason }: AnswerProps) {
  // What the agent said before its calls is no part of the stored answer, and was read while it was written.
  const before = live?.parts.filter((part) => part.kind === 'tool' || !message.content.includes(part.text.trim())) ?? []
  return (
    <article id={`message-${message.id}`} aria-label="Answer" aria-current={isWanted || undefined} className={classes('min-w-0', isWanted && WANTED)}>
      {before.map((part) =>
        part.kind === 'text' ? (
          <div key={`text-${part.step}`} className="my-1 border-l-2 border-line pl-2.5 text-text-2"><Markdown text={part.text} /></div>
        ) : (
          <ToolCallView key={part.toolCallId} tool={part.tool} status={part.status} input={part.input} output={part.result} error={part.error} denied={part.denied} truncated={part.truncated} />
        ),
      )}
      {message.content && <Markdown text={message.content} />}
      {message.status !== 'completed' && (
        <p className="mt-2 flex flex-wrap items-center gap-2">
          <Status status={message.status === 'stopped' ? 'cancelled' : message.status} detail={message.reason} />
          {message.status === 'stopped' && <span className="text-text-2">Stopped. The text so far is the answer.</span>}
          {message.error && <span className="break-words text-fail"><WithCode text={message.error} /></span>}
        </p>
      )}
      <Sources citations={message.citations ?? []} passages={message.retrievalContext?.passages ?? []} />
      <div className="mt-1.5 flex flex-wrap items-center gap-x-3 text-xs text-text-2">
        {message.rehearsal && <Rehearsal />}
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
        {!live && message.runId && agentId && message.toolCallCount !== 0 && <StoredCalls agentId={agentId} runId={message.runId} count={message.toolCallCount ?? undefined} />}
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

const HEIGHT_BEFORE = '600px'

/** Whether an element was near the visible part of the page. A long conversation is not read as a whole. */
function useWasNear(): [(element: HTMLElement | null) => void, boolean] {
  const [wasNear, setNear] = useState(false)
  const watch = useCallback((element: HTMLElement | null) => {
    if (!element) return
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && setNear(true), { rootMargin: HEIGHT_BEFORE })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return [watch, wasNear]
}

/** The most calls of an answer that are read at once. */
const MAX_CALLS = 50

/**
 * The calls of an answer from the record of its run. A list of messages says how many there were; of an answer that
 * was just written, the run is asked.
 */
function StoredCalls({ agentId, runId, count }: { agentId: string; runId: string; count: number | undefined }) {
  const [isOpen, setOpen] = useState(false)
  const [watch, wasNear] = useWasNear()
  const { allowed, reason } = useScope('admin:read')
  const { data, error } = useQuery({
    queryKey: [...keys.run(runId), 'chat-calls'],
    enabled: allowed && (isOpen || (wasNear && count === undefined)),
    staleTime: Infinity,
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/agents/{agentId}/runs/{runId}/tool-calls', { params: { path: { agentId, runId }, query: { limit: MAX_CALLS } }, signal })),
  })
  if (error) return <span className="text-fail">The tool calls could not be loaded: {error.message}</span>
  const known = count ?? data?.length
  if (known === undefined) return <span ref={watch} className="-ml-3" />
  if (known === 0) return null
  const text = `${count === undefined && known === MAX_CALLS ? `First ${MAX_CALLS}` : known} tool ${known === 1 ? 'call' : 'calls'}`
  return (
    <>
      <Button size="sm" variant="ghost" className="-mx-2" disabledReason={reason} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? 'Hide' : 'Show'} {text}
      </Button>
      {isOpen && (
        <div className="order-last w-full pt-1 text-sm text-text">
          {!data && <span role="status" aria-label="Loading" className="text-text-2">Loading…</span>}
          {data?.map((call) => (
            <ToolCallView key={call.id} tool={call.toolName} status={call.status} input={call.input} output={call.output} denied={call.denied} />
          ))}
          {data && known > data.length && <p className="text-xs text-text-2">The first {data.length} are shown; the run has all.</p>}
        </div>
      )}
    </>
  )
}

/** The answer while it is written: text and calls in the order in which they come. `waits` says for whom it waits. */
export function LiveView({ live, waits }: { live: LiveAnswer; waits: string | undefined }) {
  const isEmpty = live.parts.length === 0
  return (
    <article aria-label="Answer that is being written" aria-busy={!live.isDone} className="min-w-0">
      {live.parts.map((part) =>
        part.kind === 'text' ? <Markdown key={`text-${part.step}`} text={part.text} /> : <ToolCallView key={part.toolCallId} tool={part.tool} status={part.approvalId && part.status === 'started' ? 'waiting' : part.status} input={part.input} output={part.result} error={part.error} denied={part.denied} truncated={part.truncated} />,
      )}
      {live.error && <p className="text-fail"><WithCode text={live.error} /></p>}
      {!live.isDone && waits && <p className="mt-1 text-wait">{waits}</p>}
      {!live.isDone && !waits && <p className="animate-breathe mt-1 text-text-2">{live.meta.queued ? 'Waits for its turn…' : isEmpty ? 'Thinking…' : 'Writing…'}</p>}
    </article>
  )
}
