import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { sendMessage } from '~/api/chat'
import { api, unwrap } from '~/api/client'
import { adviceForSearch } from '~/api/errors'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { useShortcut } from '~/hooks/use-shortcut'
import { type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { ConversationList } from '~/pages/chat/ConversationList'
import { ConversationMenu } from '~/pages/chat/ConversationMenu'
import { conversationQuery, messagesQuery, type Conversation } from '~/pages/chat/chat-queries'
import { Badge } from '~/ui/Badge'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { LongTitle, PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { Money, Tokens } from '~/ui/Values'
import { forgetSent, sendOnce } from '~/util/send-once'
import { branchOf } from './branches'
import { Composer } from './Composer'
import { ExportMenu } from './ExportMenu'
import { Answer, LiveView, Question } from './Messages'
import { useLiveAnswer } from './use-live-answer'
import { WaitingCard } from './WaitingCard'

const parse = (raw: RawSearch) => ({ branch: raw.branch || undefined, message: raw.message || undefined })
const route = getRouteApi('/chat/$conversationId')

export function ConversationPage() {
  const { conversationId } = route.useParams()
  const { allowed, reason } = useScope('chat:use')
  const { data, error, refetch } = useQuery({ ...conversationQuery(conversationId), enabled: allowed })
  if (data) return <Loaded key={conversationId} conversation={data} />
  return (
    <>
      <PageHeader title="Conversation" above={<Link to="/chat">Chat</Link>} />
      {!allowed ? <EmptyState title="You cannot use the chat.">{reason}</EmptyState> : error ? <ErrorState error={error} what="The conversation could not be loaded." onRetry={() => void refetch()} /> : <SkeletonRows rows={6} />}
    </>
  )
}

type Sending = { message: string; parentId?: string | undefined; /** Names the request of a text that is in a field. */ name?: string }

function Loaded({ conversation }: { conversation: Conversation }) {
  const [{ branch, message: wanted }, change] = useUrlState(parse)
  const showBranch = (id: string) => change({ branch: id, message: '' })
  const client = useQueryClient()
  const messages = useQuery(messagesQuery(conversation.id))
  const live = useLiveAnswer(conversation)
  const refresh = useCallback(() => void client.invalidateQueries({ queryKey: keys.conversation(conversation.id) }), [client, conversation.id])
  const isAnswering = conversation.status === 'answering'
  const decides = useScope('approvals:decide').allowed
  const waitingFor = (conversation.waitingFor ?? []).map(({ approvalId }) => approvalId)
  const asked = useAllSeen(waitingFor)
  const waits = waitingFor.length === 0 ? undefined : decides ? 'Waiting for you' : 'Waiting for a person'

  const send = useMutation({
    mutationFn: ({ message, parentId, name = `${parentId} ${message}` }: Sending) => sendOnce(name, { message, conversationId: conversation.id, parentId, queue: true }, sendMessage),
    onSuccess: ({ messageId }) => {
      refresh()
      showBranch(messageId)
    },
  })
  const stop = useMutation({
    mutationFn: () => unwrap(api.POST('/api/chat/conversations/{conversationId}/stop', { params: { path: { conversationId: conversation.id } } })),
    onSettled: refresh,
  })
  const stopNow = useCallback(() => stop.mutate(), [stop])
  useShortcut('Escape', stopNow, isAnswering)

  const shown = useMemo(() => branchOf(messages.data ?? [], branch ?? wanted), [messages.data, branch, wanted])
  const last = shown.at(-1)?.message
  const isStored = live !== undefined && (messages.data ?? []).some(({ id }) => id === live.meta.answerId)
  const isHere = live !== undefined && !isStored && shown.some(({ message }) => message.id === live.meta.messageId)
  const follow = useFollow([shown.length, live?.parts, conversation.waitingFor?.length], shown.some(({ message }) => message.id === wanted) ? wanted : undefined)
  // A message after the newest one of this branch follows its answer; the first message has none before it.
  const parentId = last && last.role === 'assistant' ? last.id : undefined
  const title = conversation.title || 'New conversation'

  return (
    <div className="flex h-[calc(100dvh-88px)] min-h-96 gap-6">
      <aside aria-label="Conversations" className="hidden w-72 shrink-0 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card xl:flex">
        <ConversationList current={conversation.id} />
      </aside>
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <PageHeader
          title={title}
          above={<Link to="/chat" className="hover:underline">Chat</Link>}
          heading={<LongTitle text={title} />}
          description={
            <span className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1">
              <Badge tone="run">{conversation.agentName ?? 'Search, without an agent'}</Badge>
              {conversation.usage && (
                <span>
                  <Tokens input={conversation.usage.inputTokens} output={conversation.usage.outputTokens} /> tokens · <Money usd={conversation.usage.cost} />
                </span>
              )}
            </span>
          }
          actions={
            <>
              <ExportMenu conversation={conversation} title={title} />
              <ConversationMenu conversation={conversation} leaveTo="/chat" />
            </>
          }
        />
        <div ref={follow} role="log" aria-label="Messages" aria-live="off" className="min-h-0 flex-1 overflow-auto rounded-t-lg border border-b-0 border-line bg-surface px-4 py-4 lg:px-6">
          <div className="mx-auto max-w-3xl space-y-5">
            {messages.error ? (
              <ErrorState error={messages.error} what="The messages could not be loaded." onRetry={() => void messages.refetch()} />
            ) : messages.isPending ? (
              <SkeletonRows rows={5} />
            ) : shown.length === 0 ? (
              <EmptyState title="Nothing was said yet.">Write the first message below.</EmptyState>
            ) : (
              shown.map((one, index) =>
                one.message.role === 'user' ? (
                  <Question key={one.message.id} shown={one} isWanted={one.message.id === wanted} onSwitch={showBranch} onEdit={(text) => send.mutateAsync({ message: text, parentId: one.message.id })} isBusy={send.isPending} disabledReason={isAnswering ? 'Wait until the answer is written, or stop it.' : undefined} />
                ) : (
                  <Answer
                    key={one.message.id}
                    shown={one}
                    isWanted={one.message.id === wanted}
                    agentId={conversation.agentDefinitionId}
                    live={live?.meta.answerId === one.message.id ? live : undefined}
                    disabledReason={isAnswering ? 'Wait until the answer is written, or stop it.' : undefined}
                    onRegenerate={() => {
                      const question = shown[index - 1]?.message
                      if (question) send.mutate({ message: question.content, parentId: question.id })
                    }}
                  />
                ),
              )
            )}
            {isHere && live && <LiveView live={live} waits={waits} />}
            {isAnswering && !isHere && !isStored && (waits ? <p className="text-wait">{waits}</p> : <p className="animate-breathe text-text-2">An answer is being written…</p>)}
            {asked.map((approvalId) => (
              <WaitingCard key={approvalId} approvalId={approvalId} conversationId={conversation.id} isWaiting={waitingFor.includes(approvalId)} />
            ))}
          </div>
        </div>
        <div className="rounded-b-lg border border-line bg-surface px-4 py-3 lg:px-6">
          <div className="mx-auto max-w-3xl">
            <Composer label="Message" draft={conversation.id} placeholder={isAnswering ? 'Write the next message: it waits for its turn' : 'Write a message'} isSending={send.isPending} onStop={isAnswering ? stopNow : undefined} onEdit={() => forgetSent(conversation.id)} onSend={(message) => send.mutateAsync({ message, parentId: isAnswering ? undefined : parentId, name: conversation.id })} />
            <InlineError error={send.error ?? stop.error} hint={conversation.agentDefinitionId ? undefined : adviceForSearch(send.error)} />
          </div>
        </div>
      </div>
    </div>
  )
}

/** All that was there since the page was opened, in the order in which it came. */
function useAllSeen(now: string[]): string[] {
  const [seen, setSeen] = useState(now)
  const added = now.filter((one) => !seen.includes(one))
  if (added.length > 0) setSeen([...seen, ...added])
  return seen
}

/** Keeps the end of a log in sight while it grows, unless the person has scrolled up, or a link led to a message of it. */
function useFollow(grows: readonly unknown[], wanted: string | undefined) {
  const log = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  useEffect(() => {
    const element = log.current
    if (!element) return
    const note = () => (isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 60)
    element.addEventListener('scroll', note, { passive: true })
    return () => element.removeEventListener('scroll', note)
  }, [])
  // What is above the message may still change its height, as Markdown does when its code is loaded.
  useEffect(() => {
    const element = wanted && document.getElementById(`message-${wanted}`)
    if (!element) return
    isAtEnd.current = false
    const observer = new ResizeObserver(() => element.scrollIntoView({ block: 'center' }))
    observer.observe(element.parentElement!)
    const stop = () => observer.disconnect()
    const events = ['wheel', 'touchstart', 'keydown', 'pointerdown'] as const
    for (const event of events) addEventListener(event, stop, { once: true, passive: true })
    return () => {
      stop()
      for (const event of events) removeEventListener(event, stop)
    }
  }, [wanted])
  useEffect(() => {
    if (isAtEnd.current && log.current) log.current.scrollTop = log.current.scrollHeight
    // oxlint-disable-next-line react/exhaustive-deps
  }, grows)
  return log
}
