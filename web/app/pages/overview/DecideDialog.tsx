import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { buttonClass } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { ApprovalForm } from '../inbox/ApprovalForm'
import { DecisionCard, LostNotice } from '../inbox/DecisionCard'
import { Effect } from '../inbox/Effect'
import { type Approval, isCall, itemQuery } from '../inbox/inbox-state'
import { useKeptText } from '../inbox/kept-text'
import { KeptText } from '../inbox/KeptText'
import { problemsOf, useDecide, wasDecided } from '../inbox/use-decide'

type Props = { id: string; mode: 'approve' | 'deny'; onClose: () => void }

/** A call with all that it would do, decided without leaving the page. */
export default function DecideDialog({ id, mode, onClose }: Props) {
  const { data, error, refetch } = useQuery(itemQuery(id))
  const call = data && isCall(data) && data.kind === 'approval' ? data : undefined
  // What is written is there again when the dialog or the inbox shows the request, so closing loses none of it.
  return (
    <Dialog open onClose={onClose} isSaved size="lg" title={call ? `${call.agentName} wants to call ${call.toolName}` : 'Request'}>
      <div className="pb-2">
        {error && !data ? (
          <ErrorState error={error} what="The request could not be loaded." onRetry={() => void refetch()} />
        ) : call ? (
          <Loaded item={call} mode={mode} onClose={onClose} />
        ) : data ? (
          <EmptyState title="This is no call that waits for approval." action={<Link to="/inbox" search={{ item: id }} className={buttonClass()}>Open it in the inbox</Link>} />
        ) : (
          <SkeletonRows rows={4} />
        )}
      </div>
    </Dialog>
  )
}

function Loaded({ item, mode, onClose }: { item: Approval; mode: Props['mode']; onClose: () => void }) {
  const decide = useDecide(item, onClose)
  const kept = useKeptText(item, decide)
  const isShownAtField = Object.keys(problemsOf(decide.error)).some((name) => ['editedInput', 'reason'].includes(name))
  return (
    <div className="space-y-4">
      {wasDecided(decide.error) && <LostNotice kind="approval" error={decide.error} />}
      <Effect item={item} />
      <KeptText item={item} decide={decide} kept={kept}>
        {item.status === 'pending' && <ApprovalForm item={item} decide={decide} initial={mode === 'deny' ? 'deny' : undefined} inPlace />}
      </KeptText>
      {item.status !== 'pending' && <DecisionCard item={item} />}
      {decide.error && !wasDecided(decide.error) && !isShownAtField && <InlineError error={decide.error} />}
    </div>
  )
}
