import { useQuery } from '@tanstack/react-query'
import { Dialog } from '~/ui/Dialog'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { ApprovalForm } from '../inbox/ApprovalForm'
import { DecisionCard, LostNotice } from '../inbox/DecisionCard'
import { Effect } from '../inbox/Effect'
import { type Approval, isCall, itemQuery } from '../inbox/inbox-state'
import { problemsOf, useDecide, wasDecided } from '../inbox/use-decide'

type Props = { id: string; mode: 'approve' | 'deny'; onClose: () => void }

/** A call with all that it would do, decided without leaving the page. */
export default function DecideDialog({ id, mode, onClose }: Props) {
  const { data, error, refetch } = useQuery(itemQuery(id))
  const call = data && isCall(data) ? data : undefined
  return (
    <Dialog open onClose={onClose} size="lg" title={call ? `${call.agentName} wants to call ${call.toolName}` : 'Request'}>
      <div className="pb-2">
        {error && !data ? (
          <ErrorState error={error} what="The request could not be loaded." onRetry={() => void refetch()} />
        ) : call ? (
          <Loaded item={call} mode={mode} onClose={onClose} />
        ) : (
          <SkeletonRows rows={4} />
        )}
      </div>
    </Dialog>
  )
}

function Loaded({ item, mode, onClose }: { item: Approval; mode: Props['mode']; onClose: () => void }) {
  const decide = useDecide(item, onClose)
  const isShownAtField = Object.keys(problemsOf(decide.error)).some((name) => ['editedInput', 'reason'].includes(name))
  return (
    <div className="space-y-4">
      {wasDecided(decide.error) && <LostNotice kind="approval" error={decide.error} />}
      <Effect item={item} />
      {item.status === 'pending' ? <ApprovalForm item={item} decide={decide} initial={mode === 'deny' ? 'deny' : undefined} inPlace /> : <DecisionCard item={item} />}
      {decide.error && !wasDecided(decide.error) && !isShownAtField && <InlineError error={decide.error} />}
    </div>
  )
}
