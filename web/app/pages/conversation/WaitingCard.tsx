import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { CircleHelp, Hand } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { Button } from '~/ui/Button'
import { ErrorState, InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { JsonView } from '~/ui/JsonView'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'

type Decision = Schemas['DecideApproval']

/** A call that waits for approval, or a question, decided where it was asked. */
export function WaitingCard({ approvalId, conversationId }: { approvalId: string; conversationId: string }) {
  const client = useQueryClient()
  const scope = useScope('approvals:decide')
  const [reason, setReason] = useState('')
  const [answer, setAnswer] = useState('')
  const query = useQuery({
    queryKey: keys.inboxItem(approvalId),
    enabled: scope.allowed,
    queryFn: async ({ signal }) => (await unwrap(api.GET('/api/approvals/{approvalId}', { params: { path: { approvalId } }, signal }))) as Schemas['Approval'],
  })
  const decide = useMutation({
    mutationFn: (body: Decision) => unwrap(api.POST('/api/approvals/{approvalId}/decide', { params: { path: { approvalId } }, body })),
    onSuccess: (_detail, body) => toast(body.decision === 'approve' ? 'The call was approved.' : body.decision === 'deny' ? 'The call was denied.' : 'The question was answered.'),
    onSettled: () => {
      for (const queryKey of [keys.inbox, keys.inboxItem(approvalId), keys.conversation(conversationId)]) void client.invalidateQueries({ queryKey })
    },
  })
  if (!scope.allowed) return <p className="rounded-md bg-wait-soft px-3 py-2 text-wait">The answer waits for a person. {scope.reason}</p>
  if (query.error) return <ErrorState error={query.error} what="The request could not be loaded." onRetry={() => void query.refetch()} />
  const item = query.data
  if (!item) return <SkeletonRows rows={2} />
  if (item.status !== 'pending') return null
  const isQuestion = item.kind === 'question'
  const Icon = isQuestion ? CircleHelp : Hand
  return (
    <section aria-label={isQuestion ? 'Question' : 'Approval'} className="my-3 space-y-3 rounded-lg border border-wait-fill bg-wait-soft p-3">
      <p className="flex items-start gap-2 font-medium">
        <Icon aria-hidden size={16} className="mt-0.5 shrink-0 text-wait" />
        <span className="min-w-0 break-words">{isQuestion ? (item.question?.text ?? item.title) : `${item.agentName} wants to call ${item.toolName}`}</span>
      </p>
      {!isQuestion && <JsonView value={item.input} />}
      {isQuestion ? (
        <>
          {(item.question?.options.length ?? 0) > 0 && (
            <div className="flex flex-wrap gap-2">
              {item.question!.options.map((option) => (
                <Button key={option} size="sm" busy={decide.isPending} onClick={() => decide.mutate({ decision: 'answer', answer: option })}>
                  {option}
                </Button>
              ))}
            </div>
          )}
          <form
            className="flex items-end gap-2"
            onSubmit={(event) => {
              event.preventDefault()
              if (answer.trim()) decide.mutate({ decision: 'answer', answer: answer.trim() })
            }}
          >
            <Field label="Your answer" className="flex-1">
              {(ids) => <Input {...ids} value={answer} onChange={(event) => setAnswer(event.target.value)} />}
            </Field>
            <Button type="submit" variant="primary" busy={decide.isPending} disabledReason={answer.trim() ? undefined : 'Write an answer first.'}>
              Answer
            </Button>
          </form>
        </>
      ) : (
        <>
          <Field label="Reason" hint="The agent reads it if you deny.">
            {(ids) => <Input {...ids} value={reason} onChange={(event) => setReason(event.target.value)} />}
          </Field>
          <div className="flex gap-2">
            <Button variant="primary" busy={decide.isPending} onClick={() => decide.mutate({ decision: 'approve', digest: item.digest, reason: reason.trim() || null })}>
              Approve
            </Button>
            <Button busy={decide.isPending} onClick={() => decide.mutate({ decision: 'deny', reason: reason.trim() || null })}>
              Deny
            </Button>
          </div>
        </>
      )}
      <InlineError error={decide.error} />
    </section>
  )
}
