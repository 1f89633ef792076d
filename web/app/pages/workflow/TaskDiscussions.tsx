import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Badge, Status } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'
import { WithCode } from '~/ui/WithCode'
import { capitalised, words } from '~/util/format'

type Discussion = Schemas['Discussion']
type Entry = Schemas['DiscussionEntry']

/** The discussions of a task with everything that was said, and the decision if a person has to make it. */
export function TaskDiscussions({ taskId, workflowId }: { taskId: string; workflowId: string }) {
  const list = useQuery({
    queryKey: [...keys.discussions, 'of-task', taskId],
    queryFn: ({ signal }) => unwrap(api.GET('/api/coordination/discussions', { params: { query: { taskId, limit: 20 } }, signal })),
  })
  const details = useQueries({
    queries: (list.data ?? []).map(({ id }) => ({
      queryKey: [...keys.discussions, 'one', id],
      queryFn: ({ signal }: { signal: AbortSignal }) => unwrap(api.GET('/api/coordination/discussions/{discussionId}', { params: { path: { discussionId: id } }, signal })),
    })),
  })
  if (list.error) return <ErrorState error={list.error} what="The discussions could not be loaded." onRetry={() => void list.refetch()} />
  if (!list.data) return <SkeletonRows rows={2} />
  return (
    <div className="space-y-4">
      {details.map((query, index) =>
        query.data ? <One key={query.data.id} discussion={query.data} workflowId={workflowId} /> : query.error ? <ErrorState key={index} error={query.error} what="A discussion could not be loaded." /> : <SkeletonRows key={index} rows={2} />,
      )}
    </div>
  )
}

const textOf = (value: unknown): string | undefined => {
  if (typeof value === 'string') return value
  const { text, option } = (value ?? {}) as { text?: string; option?: string }
  return [option, text].filter(Boolean).join(': ') || undefined
}

function One({ discussion, workflowId }: { discussion: Discussion; workflowId: string }) {
  const outcome = textOf(discussion.finalDecision)
  return (
    <article aria-label={`Discussion: ${discussion.topic}`} className="rounded-md border border-line">
      <header className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-2">
        <span className="min-w-0 flex-1 truncate font-medium">{discussion.topic}</span>
        <Badge>{capitalised(words(discussion.kind))}</Badge>
        <Status status={discussion.status === 'active' ? 'running' : discussion.status === 'resolved' ? 'completed' : discussion.status} />
      </header>
      <ol className="divide-y divide-line">
        {discussion.entries.map((entry) => (
          <Said key={entry.id} entry={entry} />
        ))}
      </ol>
      {outcome && (
        <p className="border-t border-line bg-ok-soft px-3 py-2 text-sm break-words">
          <span className="font-medium text-ok">{discussion.decidedByPerson ? 'Decided by a person' : 'Outcome'}</span> {outcome}
          {discussion.consensusLevel != null && <span className="text-text-2"> ({Math.round(discussion.consensusLevel * 100)} % agreed)</span>}
        </p>
      )}
      {discussion.status === 'escalated' && !discussion.decidedByPerson && <Decide discussion={discussion} workflowId={workflowId} />}
    </article>
  )
}

function Said({ entry }: { entry: Entry }) {
  return (
    <li className="px-3 py-2">
      <p className="flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-text-2">
        <span className="font-medium text-text">{entry.agent}</span>
        {words(entry.entryType)}
        {entry.round != null && ` round ${entry.round}`}
        {entry.option && <Badge tone={/^(APPROVED|APPROVE|PASS)/.test(entry.option) ? 'ok' : 'warn'}>{entry.option}</Badge>}
        {entry.runId && (
          <Link to="/runs/$runId" params={{ runId: entry.runId }} className="ml-auto rounded-sm text-accent-text hover:underline">
            Run
          </Link>
        )}
      </p>
      <p className="mt-0.5 line-clamp-6 text-sm break-words whitespace-pre-wrap">{entry.content}</p>
    </li>
  )
}

function Decide({ discussion, workflowId }: { discussion: Discussion; workflowId: string }) {
  const client = useQueryClient()
  const { allowed, reason: lacking } = useScope('approvals:decide')
  const [own, setOwn] = useState('')
  const [reason, setReason] = useState('')
  const escalation = discussion.escalation as { reason?: string; options?: string[] } | null | undefined
  const decide = useMutationOnce({
    mutationFn: (decision: string) => unwrap(api.POST('/api/coordination/discussions/{discussionId}/decide', { params: { path: { discussionId: discussion.id } }, body: { decision, reason: reason.trim() || null } })),
    onSuccess: () => {
      toast('The discussion was decided.')
      for (const queryKey of [keys.discussions, keys.workflow(workflowId), keys.inbox]) void client.invalidateQueries({ queryKey })
    },
  })
  const options = escalation?.options ?? []
  return (
    <div className="space-y-3 border-t border-line bg-wait-soft p-3">
      <p className="text-sm">
        <span className="font-medium text-wait">You decide.</span> {escalation?.reason && <WithCode text={`${capitalised(escalation.reason)}.`} />}
      </p>
      <Field label="Reason" hint="It is recorded with the decision.">
        {(ids) => <Input {...ids} value={reason} onChange={(event) => setReason(event.target.value)} />}
      </Field>
      {options.length > 0 ? (
        <div className="flex flex-wrap gap-2">
          {options.map((option) => (
            <Button key={option} size="sm" busy={decide.isPending} disabledReason={allowed ? undefined : lacking} onClick={() => decide.mutate(option)}>
              {capitalised(words(option.toLowerCase()))}
            </Button>
          ))}
        </div>
      ) : (
        <div className="flex items-end gap-2">
          <Field label="Decision" className="flex-1">
            {(ids) => <Input {...ids} value={own} onChange={(event) => setOwn(event.target.value)} />}
          </Field>
          <Button variant="primary" busy={decide.isPending} disabledReason={allowed ? (own.trim() ? undefined : 'Write the decision first.') : lacking} onClick={() => decide.mutate(own.trim())}>
            Decide
          </Button>
        </div>
      )}
      <InlineError error={decide.error} />
    </div>
  )
}
