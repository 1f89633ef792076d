import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Textarea } from '~/ui/Field'
import { toast } from '~/ui/toast'
import { formatCount, formatMoney } from '~/util/format'
import { randomKey } from '~/util/random-key'
import type { Workflow } from './workflow-query'

function useRefresh(workflowId: string) {
  const client = useQueryClient()
  return () => {
    for (const queryKey of [keys.workflow(workflowId), keys.workflows, keys.inbox, keys.discussions]) void client.invalidateQueries({ queryKey })
  }
}

export function CancelDialog({ workflow, onClose }: { workflow: Workflow; onClose: () => void }) {
  const refresh = useRefresh(workflow.id)
  const cancel = useMutation({
    mutationFn: () => unwrap(api.POST('/api/coordination/workflows/{workflowId}/cancel', { params: { path: { workflowId: workflow.id } } })),
    onSuccess: () => {
      toast('The workflow was cancelled.')
      refresh()
      onClose()
    },
  })
  const open = workflow.tasks.filter(({ status }) => status === 'in_progress').length
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => cancel.mutate()} title="Cancel the workflow" action="Cancel the workflow" danger busy={cancel.isPending} error={cancel.error}>
      <p>
        It ends for good, and {open === 0 ? 'no task is at work' : open === 1 ? 'the run of one task is cancelled' : `the runs of ${open} tasks are cancelled`}. What its agents wrote stays; each run can be reverted.
      </p>
    </ConfirmDialog>
  )
}

const problemOf = (error: unknown, field: string) => {
  if (!(error instanceof ApiError) || !Array.isArray(error.details)) return undefined
  return (error.details as { field?: string; reason?: string }[]).find((one) => one.field === field)?.reason
}

/** Resumes a workflow, with a larger budget if one is given. */
export function ResumeDialog({ workflow, onClose }: { workflow: Workflow; onClose: () => void }) {
  const refresh = useRefresh(workflow.id)
  const [key] = useState(randomKey)
  const { limit, spent } = workflow.budget
  const [usd, setUsd] = useState('')
  const [tokens, setTokens] = useState('')
  const [note, setNote] = useState('')
  const number = (text: string) => (text.trim() === '' ? null : Number(text.replaceAll(/[,\s]/g, '')))
  const wrong = [number(usd), number(tokens)].some((value) => value !== null && !(value > 0))
  const resume = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/api/coordination/workflows/{workflowId}/resume', {
          params: { path: { workflowId: workflow.id }, header: { 'Idempotency-Key': key } },
          body: { note: note.trim() || null, budgetUsd: number(usd), budgetTokens: number(tokens) },
        }),
      ),
    onSuccess: () => {
      toast('The workflow was resumed.')
      refresh()
      onClose()
    },
  })
  const failed = workflow.tasks.filter(({ status }) => status === 'failed' || status === 'skipped').length
  return (
    <Dialog
      open
      onClose={onClose}
      size="sm"
      title="Resume the workflow"
      description={`${failed === 1 ? 'One failed or skipped task is' : `${failed} failed or skipped tasks are`} tried again. A budget that you give replaces the one so far.`}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button variant="primary" busy={resume.isPending} disabledReason={wrong ? 'A budget is a number above zero.' : undefined} onClick={() => resume.mutate()}>
            Resume the workflow
          </Button>
        </>
      }
    >
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label="Budget in dollars" problem={problemOf(resume.error, 'budgetUsd')} hint={`${formatMoney(spent.usd)} spent of ${limit.usd == null ? 'no limit' : formatMoney(limit.usd)}`}>
          {(ids) => <Input {...ids} inputMode="decimal" placeholder={limit.usd == null ? 'No limit' : 'As it is'} value={usd} onChange={(event) => setUsd(event.target.value)} />}
        </Field>
        <Field label="Budget in tokens" problem={problemOf(resume.error, 'budgetTokens')} hint={`${formatCount(spent.tokens)} spent of ${limit.tokens == null ? 'no limit' : formatCount(limit.tokens)}`}>
          {(ids) => <Input {...ids} inputMode="numeric" placeholder={limit.tokens == null ? 'No limit' : 'As it is'} value={tokens} onChange={(event) => setTokens(event.target.value)} />}
        </Field>
        <Field label="Note" hint="The next attempts read this." className="sm:col-span-2">
          {(ids) => <Textarea {...ids} rows={2} value={note} onChange={(event) => setNote(event.target.value)} />}
        </Field>
      </div>
      <InlineError error={resume.error} />
    </Dialog>
  )
}
