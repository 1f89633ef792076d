import { TriangleAlert } from 'lucide-react'
import { useScope } from '~/api/session'
import { type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { Button } from '~/ui/Button'
import { WithCode } from '~/ui/WithCode'
import { capitalised } from '~/util/format'
import { useChangeReason } from './use-change-reason'
import type { Workflow } from './workflow-query'

const LABELS: Record<string, string> = { retry: 'Retry…', reassign: 'Reassign…', skip: 'Skip…', resume: 'Resume or add budget…', cancel: 'Cancel…', decide: 'Decide the discussion' }

const isOfWorkflow = (option: string) => option === 'resume' || option === 'cancel'
const parse = (raw: RawSearch) => ({ task: raw.task, dialog: raw.dialog })

/** Why the workflow waits for a person, with a button for each decision that the server offers. */
export function EscalationCard({ workflow }: { workflow: Workflow }) {
  const [, change] = useUrlState(parse)
  const refused = useChangeReason(workflow.status)
  // To give a workflow up is no decision: it only takes the scope of whoever controls it.
  const cancel = useScope('agents:invoke').reason
  const reasonFor = (option: string) => (option === 'decide' ? undefined : option === 'cancel' ? cancel : refused)
  const { escalation } = workflow
  if (!escalation) return null
  const task = workflow.tasks.find(({ id }) => id === escalation.taskId)
  // The page has the dialogs of the workflow, and the panel of a task those of the task.
  const choose = (option: string) => (option === 'decide' ? change({ task: task?.key }) : change({ dialog: option, ...(isOfWorkflow(option) ? {} : { task: task?.key }) }, { push: true }))
  const known = escalation.options.filter((option) => option in LABELS)
  return (
    <section aria-label="Needs a person" className="mb-4 rounded-lg border border-wait-fill bg-wait-soft px-4 py-3">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-3">
        <TriangleAlert aria-hidden size={18} className="mt-0.5 shrink-0 text-wait" />
        <div className="min-w-0 flex-1 basis-72">
          <h2 className="text-sm font-semibold text-wait">This workflow needs you</h2>
          <p className="break-words"><WithCode text={capitalised(escalation.reason)} /></p>
        </div>
        <div className="flex flex-wrap gap-2">
          {known.map((option, index) => (
            <Button key={option} size="sm" variant={index === 0 ? 'primary' : 'secondary'} disabledReason={reasonFor(option)} onClick={() => choose(option)}>
              {LABELS[option]}
            </Button>
          ))}
        </div>
      </div>
    </section>
  )
}
