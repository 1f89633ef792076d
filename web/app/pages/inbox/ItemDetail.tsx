import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Badge, Status } from '~/ui/Badge'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { capitalised, plainTitle, shortId } from '~/util/format'
import { ApprovalForm } from './ApprovalForm'
import { DecisionCard, LostNotice } from './DecisionCard'
import { DiscussionView } from './DiscussionView'
import { Effect } from './Effect'
import { EscalationView } from './EscalationView'
import { type Item, isCall, itemQuery } from './inbox-state'
import { useKeptText } from './kept-text'
import { KeptText } from './KeptText'
import { QuestionForm } from './QuestionForm'
import { problemsOf, useDecide, wasDecided } from './use-decide'

type Props = { /** Called with the id of what was decided, even if it is not shown any more. */ onDecided: (id: string) => void }

export function ItemDetail({ id, onDecided }: Props & { id: string }) {
  const { data, error, refetch } = useQuery(itemQuery(id))
  if (error && !data) return <ErrorState error={error} what="The request could not be loaded." onRetry={() => void refetch()} />
  if (!data) return <SkeletonRows rows={8} />
  return <Loaded item={data} onDecided={onDecided} />
}

function Loaded({ item, onDecided }: Props & { item: Item }) {
  const decide = useDecide(item, () => onDecided(item.id))
  const kept = useKeptText(item, decide)
  const isPending = item.status === 'pending'
  const problems = problemsOf(decide.error)
  const isShownAtField = Object.keys(problems).some((name) => ['editedInput', 'answer', 'reason'].includes(name))
  const title = item.kind === 'question' && isCall(item) ? (item.question?.text ?? item.title) : item.kind === 'approval' && isCall(item) ? `${item.agentName} wants to call ${item.toolName}` : plainTitle(item)
  return (
    <article aria-label="The request" className="space-y-5 p-4 lg:p-6">
      <header>
        <div className="mb-1.5 flex flex-wrap items-center gap-2">
          <Badge tone="wait">{capitalised(item.kind)}</Badge>
          {!isPending && <Status status={item.status} />}
          {isCall(item) && item.overdue && <Badge tone="fail">Overdue</Badge>}
        </div>
        <h2 className="max-w-3xl text-lg font-semibold break-words whitespace-pre-wrap">{title}</h2>
        <p className="mt-1 flex flex-wrap gap-x-3 gap-y-0.5 text-text-2">
          {about(item).map(([key, text]) => (
            <span key={key}>{text}</span>
          ))}
        </p>
      </header>
      {wasDecided(decide.error) && <LostNotice kind={item.kind} error={decide.error} />}
      {item.kind === 'approval' && isCall(item) && <Effect item={item} />}
      <KeptText item={item} decide={decide} kept={kept}>
        {item.kind === 'discussion' && <DiscussionView item={item as never} decide={decide} />}
        {item.kind === 'escalation' && <EscalationView item={item as never} decide={decide} />}
        {isPending && item.kind === 'approval' && isCall(item) && <ApprovalForm item={item} decide={decide} />}
        {isPending && item.kind === 'question' && isCall(item) && <QuestionForm item={item} decide={decide} />}
      </KeptText>
      {decide.error && !wasDecided(decide.error) && !isShownAtField && <InlineError error={decide.error} />}
      {!isPending && <DecisionCard item={item} />}
    </article>
  )
}

/** Who asks, since when, and what happens if nobody answers. */
function about(item: Item): [string, ReactNode][] {
  const facts: [string, ReactNode][] = []
  if (isCall(item)) {
    const link = 'text-accent-text hover:underline'
    facts.push(['who', <>Asked by <Link to="/agents/$agentId" params={{ agentId: item.agentId }} className={link}>{item.agentName}</Link>{item.server && ` for the server ${item.server}`}</>])
    facts.push(['run', <>in the <Link to="/runs/$runId" params={{ runId: item.runId }} className={link}>run {shortId(item.runId)}</Link></>])
  }
  facts.push(['when', <RelativeTime key="when" at={item.createdAt} />])
  if (isCall(item) && item.expiresAt && item.status === 'pending') {
    facts.push(['expires', <span key="expires" className="text-wait">{item.overdue ? 'Its time was up' : 'Expires'} <RelativeTime at={item.expiresAt} />{item.overdue ? ', it goes on waiting' : item.onExpiry === 'deny' ? ', then it is denied' : ', then it goes on waiting as overdue'}</span>])
  }
  return facts
}
