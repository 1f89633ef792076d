import { TriangleAlert } from 'lucide-react'
import { useState } from 'react'
import { useScope } from '~/api/session'
import { Button } from '~/ui/Button'
import { WithCode } from '~/ui/WithCode'
import { capitalised } from '~/util/format'
import { TaskDialog, type TaskAction } from './TaskDialog'
import { useChangeReason } from './use-change-reason'
import { CancelDialog, ResumeDialog } from './WorkflowDialogs'
import type { Workflow } from './workflow-query'

const LABELS: Record<string, string> = { retry: 'Retry…', reassign: 'Reassign…', skip: 'Skip…', resume: 'Resume or add budget…', cancel: 'Cancel…', decide: 'Decide the discussion' }

/** Why the workflow waits for a person, with a button for each decision that the server offers. */
export function EscalationCard({ workflow, onSelect }: { workflow: Workflow; onSelect: (key: string) => void }) {
  const [chosen, setChosen] = useState<string>()
  const refused = useChangeReason(workflow.status)
  // To give a workflow up is no decision: it only takes the scope of whoever controls it.
  const cancel = useScope('agents:invoke').reason
  const reasonFor = (option: string) => (option === 'decide' ? undefined : option === 'cancel' ? cancel : refused)
  const { escalation } = workflow
  if (!escalation) return null
  const task = workflow.tasks.find(({ id }) => id === escalation.taskId)
  const close = () => setChosen(undefined)
  const choose = (option: string) => (option === 'decide' && task ? onSelect(task.key) : setChosen(option))
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
      {task && (['retry', 'reassign', 'skip'] as const).map((action: TaskAction) => chosen === action && <TaskDialog key={action} action={action} task={task} workflowId={workflow.id} onClose={close} />)}
      {chosen === 'resume' && <ResumeDialog workflow={workflow} onClose={close} />}
      {chosen === 'cancel' && <CancelDialog workflow={workflow} onClose={close} />}
    </section>
  )
}
