import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { MessageSquare } from 'lucide-react'
import { sendMessage } from '~/api/chat'
import { adviceForSearch } from '~/api/errors'
import { keys } from '~/api/keys'
import { agentsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { Composer } from '~/pages/conversation/Composer'
import { EmptyState } from '~/ui/EmptyState'
import { InlineError } from '~/ui/ErrorState'
import { Field, Select } from '~/ui/Field'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { forgetSent, sendOnce } from '~/util/send-once'
import { agentToAsk } from './agent-to-ask'
import { ConversationList } from './ConversationList'

const parse = (raw: RawSearch) => ({ agent: raw.agent || undefined, q: raw.q?.slice(0, 200) || undefined })
const SEARCH = 'search'

export function ChatPage() {
  const [{ agent, q }, change] = useUrlState(parse)
  const { allowed, reason } = useScope('chat:use')
  const readsAgents = useScope('agents:read').allowed
  const known = useQuery({ ...agentsQuery, enabled: allowed && readsAgents })
  const agents = (known.data?.items ?? []).filter(({ visibility }) => visibility !== 'internal')
  const client = useQueryClient()
  const navigate = useNavigate()
  const chosen = agent === SEARCH ? undefined : agentToAsk(agents, agent)
  const name = `chat with ${chosen?.id}`
  const send = useMutation({
    mutationFn: (message: string) => sendOnce(name, { message, agentDefinitionId: chosen?.id }, sendMessage),
    onSuccess: ({ conversationId }) => {
      void client.invalidateQueries({ queryKey: keys.conversations })
      void navigate({ to: '/chat/$conversationId', params: { conversationId }, search: {} })
    },
  })
  if (!allowed) {
    return (
      <>
        <PageHeader title="Chat" />
        <EmptyState title="You cannot use the chat.">{reason}</EmptyState>
      </>
    )
  }
  return (
    <>
      <PageHeader title="Chat" description="Talk with an agent, or ask what the graph and the documents know." />
      <div className="flex flex-col gap-5 lg:h-[calc(100dvh-170px)] lg:min-h-96 lg:flex-row">
        <section aria-label="New conversation" className="flex flex-1 flex-col justify-center lg:order-2">
          <div className="mx-auto w-full max-w-2xl space-y-4 lg:pb-20">
            <div className="text-center max-lg:hidden">
              <span className="mx-auto mb-3 grid size-10 place-items-center rounded-full bg-accent-soft text-accent-text">
                <MessageSquare aria-hidden size={18} />
              </span>
              <h2 className="text-lg font-semibold">What do you want to know?</h2>
            </div>
            <Field label="Who answers" hint={chosen ? chosen.description || 'An agent with its tools.' : 'A model reads what a search finds, without tools. It needs a model for the whole server (EMERGENT_MODEL).'}>
              {(ids) => <Select {...ids} value={chosen?.name ?? SEARCH} onChange={(event) => change({ agent: event.target.value })} options={[...agents.map(({ name }) => ({ value: name, label: name })), { value: SEARCH, label: 'Search, without an agent' }]} />}
            </Field>
            {/* Before the agents are known, a message would go to none of them. */}
            {known.isLoading ? <SkeletonRows rows={2} /> : <Composer label="Message" draft="first message" placeholder="Write a message" isSending={send.isPending} onEdit={() => forgetSent(name)} onSend={(message) => send.mutateAsync(message)} />}
            <InlineError error={send.error} hint={chosen ? undefined : adviceForSearch(send.error)} />
            {agents.length === 0 && known.isSuccess && (
              <p className="text-center text-text-2">
                There is no agent yet. <Link to="/products" className="text-accent-text underline">Install a product</Link> that brings some.
              </p>
            )}
          </div>
        </section>
        <aside aria-label="Conversations" className="flex min-h-0 flex-col overflow-hidden rounded-lg border border-line bg-surface shadow-card lg:w-72 lg:shrink-0">
          <ConversationList q={q} onSearch={(next) => change({ q: next })} />
        </aside>
      </div>
    </>
  )
}
