import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Ban, Play } from 'lucide-react'
import { useRef, useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { useDraft } from '~/hooks/use-draft'
import { useShortcut } from '~/hooks/use-shortcut'
import { Status } from '~/ui/Badge'
import { Button, buttonClass } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { ErrorState } from '~/ui/ErrorState'
import { Field, Textarea } from '~/ui/Field'
import { SkeletonRows } from '~/ui/Skeleton'
import { Key, onSend } from './ApprovalForm'
import type { Escalated } from './inbox-state'
import { type Decide, problemsOf } from './use-decide'

/** A workflow that cannot go on: its tasks, and how to go on or give up. */
export function EscalationView({ item, decide }: { item: Escalated; decide: Decide }) {
  const { allowed, reason } = useScope('agents:read')
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.workflow(item.id), 'inbox'],
    enabled: allowed,
    queryFn: ({ signal }) => unwrap(api.GET('/api/coordination/workflows/{workflowId}', { params: { path: { workflowId: item.id } }, signal })),
  })
  return (
    <>
      {!allowed ? (
        <p className="text-text-2">{reason}</p>
      ) : error ? (
        <ErrorState error={error} what="The workflow could not be loaded." onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonRows rows={3} />
      ) : (
        <section>
          <h3 className="mb-1.5 text-xs font-medium text-text-2">
            Tasks of{' '}
            <Link to="/workflows/$workflowId" params={{ workflowId: item.id }} className="text-accent-text hover:underline">
              {data.description || 'the workflow'}
            </Link>
          </h3>
          <ul className="max-w-3xl divide-y divide-line rounded-md border border-line">
            {data.tasks.map((task) => {
              const run = task.runIds.at(-1)
              return (
                <li key={task.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2">
                  <span className="min-w-0 flex-1">
                    <span className="block truncate font-medium">{task.title}</span>
                    <span className="text-xs text-text-2">
                      {task.agent ?? 'no agent yet'}, {task.attempts} {task.attempts === 1 ? 'attempt' : 'attempts'}
                    </span>
                  </span>
                  {run && (
                    <Link to="/runs/$runId" params={{ runId: run }} className="text-xs text-accent-text hover:underline">
                      Last run
                    </Link>
                  )}
                  <Status status={task.status} />
                </li>
              )
            })}
          </ul>
        </section>
      )}
      {item.status === 'pending' && <Resume item={item} decide={decide} />}
    </>
  )
}

function Resume({ item, decide }: { item: Escalated; decide: Decide }) {
  const [note, setNote] = useDraft(`${item.id} note`)
  const button = useRef<HTMLButtonElement>(null)
  const field = useRef<HTMLTextAreaElement>(null)
  useShortcut('a', () => button.current?.focus())
  useShortcut('r', () => field.current?.focus())
  const send = () => decide.mutate({ decision: 'approve', ...(note.trim() && { reason: note.trim() }), told: 'The workflow goes on.' })
  return (
    <form
      className="max-w-3xl space-y-3"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <Field label="Note for the next attempt" hint="Failed and skipped tasks are tried again; their agents read the note." problem={problemsOf(decide.error).reason}>
        {(ids) => <Textarea {...ids} ref={field} rows={3} value={note} onChange={(event) => setNote(event.target.value)} onKeyDown={onSend(send, decide.isPending)} />}
      </Field>
      <div className="flex flex-wrap gap-2">
        <Button ref={button} type="submit" variant="primary" icon={<Play aria-hidden size={14} />} busy={decide.isPending}>
          Resume the workflow<Key>a</Key>
        </Button>
        <CancelWorkflow decide={decide} />
        {item.options.some((option) => ['skip', 'reassign'].includes(option)) && (
          <Link to="/workflows/$workflowId" params={{ workflowId: item.id }} className={buttonClass('ghost')}>
            Skip or reassign a task
          </Link>
        )}
      </div>
    </form>
  )
}

/** Gives a workflow up, by its own request or by the discussion that it waits for. */
export function CancelWorkflow({ decide, disabledReason }: { decide: Decide; disabledReason?: string | undefined }) {
  const [asks, setAsks] = useState(false)
  useShortcut('d', () => setAsks(true), disabledReason === undefined)
  return (
    <>
      <Button icon={<Ban aria-hidden size={14} />} disabledReason={disabledReason} onClick={() => setAsks(true)}>
        Cancel the workflow…<Key>d</Key>
      </Button>
      <ConfirmDialog open={asks} onClose={() => setAsks(false)} onConfirm={() => decide.mutate({ decision: 'deny', told: 'The workflow was cancelled.' })} title="Cancel the workflow" action="Cancel the workflow" danger busy={decide.isPending} error={decide.error}>
        <p>It ends with all of its runs. What its tasks have written stays.</p>
      </ConfirmDialog>
    </>
  )
}
