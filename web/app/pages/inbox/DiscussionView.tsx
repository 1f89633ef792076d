import { useQuery } from '@tanstack/react-query'
import { Check } from 'lucide-react'
import { useRef } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { useDraft } from '~/hooks/use-draft'
import { useShortcut } from '~/hooks/use-shortcut'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { ErrorState } from '~/ui/ErrorState'
import { Field, Textarea } from '~/ui/Field'
import { SkeletonRows } from '~/ui/Skeleton'
import { RelativeTime } from '~/ui/Values'
import { capitalised, words } from '~/util/format'
import { workflowQuery } from '~/pages/workflow/workflow-query'
import { Key, onSend } from './ApprovalForm'
import { CancelWorkflow } from './EscalationView'
import type { Escalated } from './inbox-state'
import { type Decide, problemsOf } from './use-decide'

const ACCEPT = 'accept the last proposal'

/** What was said, and how a person settles it. */
export function DiscussionView({ item, decide }: { item: Escalated; decide: Decide }) {
  const { allowed, reason } = useScope('agents:read')
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.discussions, 'inbox', item.id],
    enabled: allowed,
    queryFn: ({ signal }) => unwrap(api.GET('/api/coordination/discussions/{discussionId}', { params: { path: { discussionId: item.id } }, signal })),
  })
  const why = (data?.escalation as { reason?: string } | null | undefined)?.reason
  return (
    <>
      {!allowed ? (
        <p className="text-text-2">{reason}</p>
      ) : error ? (
        <ErrorState error={error} what="The discussion could not be loaded." onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonRows rows={4} />
      ) : (
        <div className="space-y-3">
          {why && <p className="text-text-2">{capitalised(why)}. Between {data.participants.join(' and ')}.</p>}
          <ol aria-label="What was said" className="max-w-3xl space-y-3 border-l-2 border-line pl-4">
            {data.entries.map((entry) => (
              <li key={entry.id}>
                <p className="flex flex-wrap items-center gap-2 text-xs text-text-2">
                  <strong className="font-medium text-text">{entry.agent}</strong>
                  <Badge tone={entry.entryType === 'proposal' ? 'run' : 'idle'}>{capitalised(words(entry.entryType))}</Badge>
                  {entry.round && `round ${entry.round}`}
                  <RelativeTime at={entry.at} />
                </p>
                <p className="mt-0.5 break-words whitespace-pre-wrap">{entry.content}</p>
              </li>
            ))}
          </ol>
        </div>
      )}
      {item.status === 'pending' && <Decision item={item} decide={decide} taskId={data?.taskId} />}
    </>
  )
}

/** The workflow that conducts a discussion of a task. */
function useWorkflowOf(taskId: string | null | undefined) {
  const task = useQuery({
    queryKey: [...keys.tasks, 'one', taskId],
    enabled: Boolean(taskId),
    queryFn: ({ signal }) => unwrap(api.GET('/api/coordination/tasks/{taskId}', { params: { path: { taskId: taskId! } }, signal })),
  })
  const id = task.data?.workflowId ?? ''
  return useQuery({ ...workflowQuery(id), enabled: id !== '' }).data
}

function Decision({ item, decide, taskId }: { item: Escalated; decide: Decide; /** The task that waits for it, if there is one. */ taskId: string | null | undefined }) {
  const workflow = useWorkflowOf(taskId)
  // The server gives a workflow up by its discussion only when nothing else of it is left to do.
  const busy = workflow && workflow.status !== 'escalated' ? 'The workflow still does other work. To give it up now, cancel it on its own page.' : undefined
  const [text, setText] = useDraft(`${item.id} answer`)
  const accept = useRef<HTMLButtonElement>(null)
  const field = useRef<HTMLTextAreaElement>(null)
  useShortcut('a', () => accept.current?.focus())
  useShortcut('r', () => field.current?.focus())
  const answer = (value: string) => decide.mutate({ decision: 'answer', answer: value, told: 'The discussion was decided.' })
  const send = () => text.trim() && answer(text.trim())
  return (
    <div className="space-y-4">
      <div className="flex flex-wrap gap-2">
        {item.options.map((option) =>
          option === ACCEPT ? (
            <Button key={option} ref={accept} variant="primary" icon={<Check aria-hidden size={14} />} busy={decide.isPending} onClick={() => decide.mutate({ decision: 'approve', told: 'The last proposal was accepted.' })}>
              Accept the last proposal<Key>a</Key>
            </Button>
          ) : (
            <Button key={option} busy={decide.isPending} onClick={() => answer(option)}>
              {capitalised(option)}
            </Button>
          ),
        )}
        {workflow && <CancelWorkflow decide={decide} disabledReason={busy} />}
      </div>
      <form
        className="max-w-3xl space-y-3"
        onSubmit={(event) => {
          event.preventDefault()
          send()
        }}
      >
        <Field label="Or decide in your own words" hint="It is the outcome, and the workflow goes on with it." problem={problemsOf(decide.error).answer}>
          {(ids) => <Textarea {...ids} ref={field} rows={3} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onSend(send, decide.isPending)} />}
        </Field>
        <Button type="submit" busy={decide.isPending} disabledReason={text.trim() ? undefined : 'Write the outcome first.'}>
          Decide<Key>Ctrl Enter</Key>
        </Button>
      </form>
    </div>
  )
}
