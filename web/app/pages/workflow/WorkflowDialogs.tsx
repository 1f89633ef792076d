import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { useScope } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Textarea } from '~/ui/Field'
import { toast } from '~/ui/toast'
import { amountOf } from '~/util/amount'
import { formatCount, formatMoney } from '~/util/format'
import { randomKey } from '~/util/random-key'
import { allowsMore, amountHint, amountProblem } from './budget'
import type { Workflow } from './workflow-query'

type Props = { workflow: Workflow; disabledReason: string | undefined; onClose: () => void }

function useRefresh(workflowId: string) {
  const client = useQueryClient()
  return () => {
    for (const queryKey of [keys.workflow(workflowId), keys.workflows, keys.inbox, keys.discussions]) void client.invalidateQueries({ queryKey })
  }
}

export function CancelDialog({ workflow, disabledReason, onClose }: Props) {
  const refresh = useRefresh(workflow.id)
  const cancel = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/coordination/workflows/{workflowId}/cancel', { params: { path: { workflowId: workflow.id } } })),
    onSuccess: () => {
      toast('The workflow was cancelled.')
      refresh()
      onClose()
    },
  })
  const open = workflow.tasks.filter(({ status }) => status === 'in_progress').length
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => cancel.mutate()} title="Cancel the workflow" action="Cancel the workflow" danger busy={cancel.isPending} disabledReason={disabledReason} error={cancel.error}>
      <p>
        It ends for good, and {open === 0 ? 'no task is at work' : open === 1 ? 'the run of one task is cancelled' : `the runs of ${open} tasks are cancelled`}. What its agents wrote stays; each run can be reverted.
      </p>
    </ConfirmDialog>
  )
}

type Amounts = { usd: string; tokens: string }

/** The limits as they are now. A request has both, and somebody may have changed the other one since the dialog was opened. */
const readLimit = async (workflowId: string) => (await unwrap(api.GET('/api/coordination/workflows/{workflowId}', { params: { path: { workflowId } } }))).budget.limit

const wrongAmount = ({ usd, tokens }: Amounts) => amountProblem(usd, 'usd') ?? amountProblem(tokens, 'tokens')

/** Why these amounts cannot be sent: whoever may not decide for the project may lower a limit, and neither raise nor remove it. */
function useRefusedAmount(amounts: Amounts, { limit }: Workflow['budget'], empty: null | undefined): string | undefined {
  const { reason } = useScope('approvals:decide')
  const more = allowsMore(amounts.usd, limit.usd, empty) || allowsMore(amounts.tokens, limit.tokens, empty)
  return wrongAmount(amounts) ?? (more && reason ? `${reason} Raising or removing a limit needs it.` : undefined)
}

type BudgetProps = {
  budget: Workflow['budget']
  value: Amounts
  onChange: (next: Amounts) => void
  /** What the API said, and the names of both fields in it. */
  error: unknown
  fields: Amounts
  /** What an empty field means where there is a limit. */
  empty: string
}

function BudgetFields({ budget: { limit, spent }, value, onChange, error, fields, empty }: BudgetProps) {
  return (
    <>
      <Field label="Budget in dollars" problem={amountProblem(value.usd, 'usd') ?? problemAt(error, fields.usd)} hint={amountHint(value.usd, spent.usd, limit.usd, formatMoney)}>
        {(ids) => <Input {...ids} inputMode="decimal" placeholder={limit.usd == null ? 'No limit' : empty} value={value.usd} onChange={(event) => onChange({ ...value, usd: event.target.value })} />}
      </Field>
      <Field label="Budget in tokens" problem={amountProblem(value.tokens, 'tokens') ?? problemAt(error, fields.tokens)} hint={amountHint(value.tokens, spent.tokens, limit.tokens, formatCount)}>
        {(ids) => <Input {...ids} inputMode="numeric" placeholder={limit.tokens == null ? 'No limit' : empty} value={value.tokens} onChange={(event) => onChange({ ...value, tokens: event.target.value })} />}
      </Field>
    </>
  )
}

/** Resumes a workflow, with a larger budget if one is given. */
export function ResumeDialog({ workflow, disabledReason, onClose }: Props) {
  const refresh = useRefresh(workflow.id)
  const [key] = useState(randomKey)
  const [amounts, setAmounts] = useState<Amounts>({ usd: '', tokens: '' })
  const [note, setNote] = useState('')
  const refused = useRefusedAmount(amounts, workflow.budget, undefined)
  const resume = useMutationOnce({
    mutationFn: async () => {
      const [usd, tokens] = [amountOf(amounts.usd), amountOf(amounts.tokens)]
      // A budget in the request replaces the whole one, so a field that is left empty is sent as it is.
      const kept = usd === null && tokens === null ? {} : await readLimit(workflow.id)
      return unwrap(
        api.POST('/api/coordination/workflows/{workflowId}/resume', {
          params: { path: { workflowId: workflow.id }, header: { 'Idempotency-Key': key } },
          body: { note: note.trim() || null, budgetUsd: usd ?? kept.usd ?? null, budgetTokens: tokens ?? kept.tokens ?? null },
        }),
      )
    },
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
      onSubmit={() => resume.mutate()}
      size="sm"
      title="Resume the workflow"
      description={`${failed === 1 ? 'One failed or skipped task is' : `${failed} failed or skipped tasks are`} tried again. A limit that you give replaces the one so far.`}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button variant="primary" busy={resume.isPending} disabledReason={disabledReason ?? refused} type="submit">
            Resume the workflow
          </Button>
        </>
      }
    >
      <div className="grid gap-3 sm:grid-cols-2">
        <BudgetFields budget={workflow.budget} value={amounts} onChange={setAmounts} error={resume.error} fields={{ usd: 'budgetUsd', tokens: 'budgetTokens' }} empty="As it is" />
        <Field label="Note" hint="The next attempts read this." className="sm:col-span-2">
          {(ids) => <Textarea {...ids} rows={2} value={note} onChange={(event) => setNote(event.target.value)} />}
        </Field>
      </div>
      <InlineError error={resume.error} />
    </Dialog>
  )
}

/** Changes the budget of a workflow at work, which goes on meanwhile. */
export function BudgetDialog({ workflow, disabledReason, onClose }: Props) {
  const refresh = useRefresh(workflow.id)
  const { limit } = workflow.budget
  const [before] = useState<Amounts>({ usd: limit.usd == null ? '' : String(limit.usd), tokens: limit.tokens == null ? '' : String(limit.tokens) })
  const [amounts, setAmounts] = useState(before)
  const [reason, setReason] = useState('')
  const refused = useRefusedAmount(amounts, workflow.budget, null)
  const change = useMutationOnce({
    mutationFn: async () => {
      const now = await readLimit(workflow.id)
      const wanted = (unit: keyof Amounts) => (amounts[unit] === before[unit] ? (now[unit] ?? null) : amountOf(amounts[unit]))
      return unwrap(api.PUT('/api/coordination/workflows/{workflowId}/budget', { params: { path: { workflowId: workflow.id } }, body: { usd: wanted('usd'), tokens: wanted('tokens'), reason: reason.trim() || null } }))
    },
    onSuccess: () => {
      toast('The budget was changed.')
      refresh()
      onClose()
    },
  })
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => change.mutate()}
      size="sm"
      title="Change the budget"
      description="The workflow goes on meanwhile. What it has spent counts, and an empty field means no limit."
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button variant="primary" busy={change.isPending} disabledReason={disabledReason ?? refused} type="submit">
            Change the budget
          </Button>
        </>
      }
    >
      <div className="grid gap-3 sm:grid-cols-2">
        <BudgetFields budget={workflow.budget} value={amounts} onChange={setAmounts} error={change.error} fields={{ usd: 'usd', tokens: 'tokens' }} empty="No limit" />
        <Field label="Reason" hint="The decisions of the workflow have it." problem={problemAt(change.error, 'reason')} className="sm:col-span-2">
          {(ids) => <Textarea {...ids} rows={2} value={reason} onChange={(event) => setReason(event.target.value)} />}
        </Field>
      </div>
      <InlineError error={otherProblem(change.error, ['usd', 'tokens', 'reason'])} />
    </Dialog>
  )
}
