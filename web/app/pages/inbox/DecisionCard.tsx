import { useQuery } from '@tanstack/react-query'
import { CircleCheck, Info } from 'lucide-react'
import type { ApiError } from '~/api/errors'
import { useScope, useSession } from '~/api/session'
import { Diff } from '~/ui/Diff'
import { JsonView } from '~/ui/JsonView'
import { RelativeTime } from '~/ui/Values'
import { shortId } from '~/util/format'
import { firstDecision, tokenNamesQuery, wordsFor } from './first-decision'
import { type Item, isCall } from './inbox-state'

/** The person behind a token, by its name where the login may read it. */
export function Who({ tokenId }: { tokenId: string | null | undefined }) {
  const session = useSession()
  const { allowed } = useScope('admin:read')
  const isOwn = tokenId !== null && tokenId !== undefined && tokenId === session?.tokenId
  const tokens = useQuery({ ...tokenNamesQuery, enabled: allowed && Boolean(tokenId) && !isOwn }).data
  if (!tokenId) return <>The server</>
  if (isOwn) return <>You</>
  return <>{tokens?.items.find((token) => token.id === tokenId)?.name ?? `Somebody with the token ${shortId(tokenId)}`}</>
}

/** Shown to whoever decided second. */
export function LostNotice({ kind, error }: { kind: Item['kind']; error: ApiError }) {
  const first = firstDecision(error)
  return (
    <div role="alert" className="flex gap-2 rounded-md bg-warn-soft px-3 py-2.5 text-warn">
      <Info aria-hidden size={16} className="mt-0.5 shrink-0" />
      <div>
        <p className="font-medium">
          <Who tokenId={first.tokenId} /> {wordsFor(kind, first.decision)} first{first.at && <>, <RelativeTime at={first.at} /></>}.
        </p>
        <p>Your decision changed nothing.{first.reason && ` The reason: ${first.reason}`}</p>
      </div>
    </div>
  )
}

/** What was decided, by whom and why. */
export function DecisionCard({ item }: { item: Item }) {
  const { decision } = item
  if (!decision) return <p className="rounded-md bg-sunken px-3 py-2.5 text-text-2">{item.status === 'expired' ? 'Nobody decided in time, so it was denied.' : 'It was withdrawn: nobody has to decide it any more.'}</p>
  const hasAnswer = decision.answer !== undefined && decision.answer !== null
  return (
    <div className="space-y-3 rounded-md border border-line bg-sunken px-4 py-3">
      <p className="flex items-center gap-2 font-medium">
        <CircleCheck aria-hidden size={16} className={decision.decision === 'deny' ? 'text-fail' : 'text-ok'} />
        <span>
          <Who tokenId={decision.tokenId} /> {item.status === 'expired' ? 'denied it, because its time was up' : wordsFor(item.kind, decision.decision)}, <RelativeTime at={decision.at} />
        </span>
      </p>
      {decision.reason && <p className="break-words text-text-2">{decision.reason}</p>}
      {hasAnswer && (typeof decision.answer === 'string' ? <p className="break-words">{decision.answer}</p> : <JsonView value={decision.answer} />)}
      {decision.editedInput && isCall(item) && (
        <div>
          <p className="mb-1 text-xs font-medium text-text-2">The input was changed:</p>
          <Diff before={item.input} after={decision.editedInput} label="Changes of the input" />
        </div>
      )}
    </div>
  )
}
