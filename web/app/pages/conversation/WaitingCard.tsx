import { useQuery, useQueryClient } from '@tanstack/react-query'
import { CircleHelp, Hand } from 'lucide-react'
import { useEffect } from 'react'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { ApprovalForm } from '../inbox/ApprovalForm'
import { LostNotice } from '../inbox/DecisionCard'
import { Effect } from '../inbox/Effect'
import { type Approval, isCall, itemQuery } from '../inbox/inbox-state'
import { useKeptText } from '../inbox/kept-text'
import { KeptText } from '../inbox/KeptText'
import { QuestionForm } from '../inbox/QuestionForm'
import { problemsOf, useDecide, wasDecided } from '../inbox/use-decide'
import { useTellFirst } from '../inbox/use-tell-first'

type Props = { approvalId: string; conversationId: string; /** The conversation waits for it, as far as is known. */ isWaiting: boolean }

/** A call that waits for approval, or a question, decided where it was asked. */
export function WaitingCard({ approvalId, conversationId, isWaiting }: Props) {
  const scope = useScope('approvals:decide')
  const query = useQuery({ ...itemQuery(approvalId), enabled: scope.allowed })
  const { refetch } = query
  useEffect(() => {
    if (!isWaiting) void refetch()
  }, [isWaiting, refetch])
  if (!isWaiting && !query.data) return null
  if (!scope.allowed) return <p className="rounded-md bg-wait-soft px-3 py-2 text-wait">The answer waits for a person. {scope.reason}</p>
  if (query.error && isWaiting) return <ErrorState error={query.error} what="The request could not be loaded." onRetry={() => void query.refetch()} />
  const item = query.data
  if (!item) return <SkeletonRows rows={2} />
  return isCall(item) ? <Request item={item} conversationId={conversationId} isWaiting={isWaiting && item.status === 'pending'} /> : null
}

function Request({ item, conversationId, isWaiting }: { item: Approval; conversationId: string; isWaiting: boolean }) {
  const client = useQueryClient()
  const refresh = () => void client.invalidateQueries({ queryKey: keys.conversation(conversationId) })
  // The card goes away with the decision of somebody else, so whoever decides second is told by a message that stays.
  const tellFirst = useTellFirst()
  const decide = useDecide(item, refresh, (error) => {
    tellFirst(error)
    refresh()
  })
  const kept = useKeptText(item, decide)
  // When somebody else decides, the card stays as long as it has text.
  if (!isWaiting && (decide.isSuccess || kept.texts.length === 0)) return null
  const isPending = item.status === 'pending'
  const isShownAtField = Object.keys(problemsOf(decide.error)).some((name) => ['editedInput', 'answer', 'reason'].includes(name))
  const isQuestion = item.kind === 'question'
  const Icon = isQuestion ? CircleHelp : Hand
  return (
    <section aria-label={isQuestion ? 'Question' : 'Approval'} className="my-3 space-y-3 rounded-lg border border-wait-fill bg-wait-soft p-3">
      <p className="flex items-start gap-2 font-medium">
        <Icon aria-hidden size={16} className="mt-0.5 shrink-0 text-wait" />
        <span className="min-w-0 break-words">{isQuestion ? (item.question?.text ?? item.title) : `${item.agentName} wants to call ${item.toolName}`}</span>
      </p>
      <div className="space-y-4 rounded-md bg-surface p-3">
        {wasDecided(decide.error) && <LostNotice kind={item.kind} error={decide.error} />}
        {!isQuestion && <Effect item={item} />}
        <KeptText item={item} decide={decide} kept={kept}>
          {isPending && (isQuestion ? <QuestionForm item={item} decide={decide} inPlace /> : <ApprovalForm item={item} decide={decide} inPlace />)}
        </KeptText>
      </div>
      {!isShownAtField && !wasDecided(decide.error) && <InlineError error={decide.error} />}
    </section>
  )
}
