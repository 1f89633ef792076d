import { useQuery, useQueryClient } from '@tanstack/react-query'
import { CircleHelp, Hand } from 'lucide-react'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { ApprovalForm } from '../inbox/ApprovalForm'
import { Effect } from '../inbox/Effect'
import { type Approval, isCall, itemQuery } from '../inbox/inbox-state'
import { QuestionForm } from '../inbox/QuestionForm'
import { problemsOf, useDecide } from '../inbox/use-decide'
import { useTellFirst } from '../inbox/use-tell-first'

type Props = { approvalId: string; conversationId: string }

/** A call that waits for approval, or a question, decided where it was asked. */
export function WaitingCard({ approvalId, conversationId }: Props) {
  const scope = useScope('approvals:decide')
  const query = useQuery({ ...itemQuery(approvalId), enabled: scope.allowed })
  if (!scope.allowed) return <p className="rounded-md bg-wait-soft px-3 py-2 text-wait">The answer waits for a person. {scope.reason}</p>
  if (query.error) return <ErrorState error={query.error} what="The request could not be loaded." onRetry={() => void query.refetch()} />
  const item = query.data
  if (!item) return <SkeletonRows rows={2} />
  if (!isCall(item) || item.status !== 'pending') return null
  return <Request item={item} conversationId={conversationId} />
}

function Request({ item, conversationId }: { item: Approval; conversationId: string }) {
  const client = useQueryClient()
  const refresh = () => void client.invalidateQueries({ queryKey: keys.conversation(conversationId) })
  // The card goes away with the decision of somebody else, so whoever decides second is told by a message that stays.
  const tellFirst = useTellFirst()
  const decide = useDecide(item, refresh, (error) => {
    tellFirst(error)
    refresh()
  })
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
        {isQuestion ? (
          <QuestionForm item={item} decide={decide} inPlace />
        ) : (
          <>
            <Effect item={item} />
            <ApprovalForm item={item} decide={decide} inPlace />
          </>
        )}
      </div>
      {!isShownAtField && <InlineError error={decide.error} />}
    </section>
  )
}
