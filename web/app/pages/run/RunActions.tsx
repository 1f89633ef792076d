import { useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Ban, FlaskConical, GitCompareArrows, RotateCcw, Undo2 } from 'lucide-react'
import { useMemo } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Button, buttonClass } from '~/ui/Button'
import { ConfirmDialog } from '~/ui/ConfirmDialog'
import { toast } from '~/ui/toast'
import { useActions } from '~/util/actions'
import { words } from '~/util/format'
import { lazyPart } from '~/util/lazy-part'
import { ResumeDialog } from './ResumeDialog'
import { RevertDialog } from './RevertDialog'
import { isOver, type RunDetail } from './run-queries'

const SaveTestDialog = lazyPart(() => import('./SaveTestDialog').then((module) => module.SaveTestDialog))

const DIALOGS = ['cancel', 'resume', 'revert', 'test'] as const

/** Why a run cannot be resumed, if it cannot. */
function whyNotResumed(run: RunDetail): string | undefined {
  if (run.resumedAs) return 'Another run already goes on where this one paused.'
  return run.status === 'paused' ? undefined : `Only a paused run can be resumed; this one is ${words(run.status)}.`
}

export function RunActions({ run }: { run: RunDetail }) {
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const invoke = useScope('agents:invoke').reason
  const write = useScope('admin:write').reason
  const over = isOver(run.status)
  const cancelReason = invoke ?? (over ? 'The run has ended.' : undefined)
  const resumeReason = invoke ?? whyNotResumed(run)
  const testReason = over ? undefined : 'A run can be saved as a test when it has ended.'
  const revertReason = write ?? (over ? undefined : 'A run can be reverted when it has ended.')
  const navigate = useNavigate()
  useActions(
    useMemo(
      () => [
        { id: 'run-cancel', label: 'Cancel this run…', group: 'On this page', disabledReason: cancelReason, run: () => open('cancel') },
        { id: 'run-resume', label: 'Resume this run…', group: 'On this page', disabledReason: resumeReason, run: () => open('resume') },
        { id: 'run-test', label: 'Save this run as a test…', group: 'On this page', disabledReason: testReason, run: () => open('test') },
        { id: 'run-revert', label: 'Revert what this run wrote…', group: 'On this page', disabledReason: revertReason, run: () => open('revert') },
        { id: 'run-compare', label: 'Compare this run with another', group: 'On this page', run: () => void navigate({ to: '/runs/compare', search: { left: run.id } }) },
      ],
      [cancelReason, resumeReason, testReason, revertReason, run.id, navigate, open],
    ),
  )
  return (
    <>
      <Link to="/runs/compare" search={{ left: run.id }} className={buttonClass()}>
        <GitCompareArrows aria-hidden size={14} />
        Compare
      </Link>
      <Button icon={<FlaskConical aria-hidden size={14} />} disabledReason={testReason} onClick={() => open('test')}>
        Save as test…
      </Button>
      <Button icon={<Undo2 aria-hidden size={14} />} disabledReason={revertReason} onClick={() => open('revert')}>
        Revert…
      </Button>
      <Button icon={<RotateCcw aria-hidden size={14} />} disabledReason={resumeReason} onClick={() => open('resume')}>
        Resume…
      </Button>
      <Button icon={<Ban aria-hidden size={14} />} disabledReason={cancelReason} onClick={() => open('cancel')}>
        Cancel…
      </Button>
      {dialog === 'cancel' && <CancelDialog run={run} disabledReason={cancelReason} onClose={close} />}
      {dialog === 'resume' && <ResumeDialog run={run} disabledReason={resumeReason} onClose={close} />}
      {dialog === 'test' && !testReason && <SaveTestDialog run={run} onClose={close} />}
      {dialog === 'revert' && <RevertDialog run={run} disabledReason={revertReason} onClose={close} />}
    </>
  )
}

type DialogProps = { run: RunDetail; disabledReason: string | undefined; onClose: () => void }

function CancelDialog({ run, disabledReason, onClose }: DialogProps) {
  const client = useQueryClient()
  const cancel = useMutationOnce({
    mutationFn: () => unwrap(api.POST('/api/admin/agents/{agentId}/runs/{runId}/cancel', { params: { path: { agentId: run.agentId, runId: run.id } } })),
    onSuccess: () => {
      toast('The run was cancelled.')
      void client.invalidateQueries({ queryKey: keys.run(run.id) })
      onClose()
    },
  })
  const below = run.childRuns.filter((child) => !isOver(child.status)).length
  return (
    <ConfirmDialog open onClose={onClose} onConfirm={() => cancel.mutate()} title="Cancel this run" action="Cancel the run" danger busy={cancel.isPending} disabledReason={disabledReason} error={cancel.error}>
      <p>
        It stops at once{below > 0 && <>, and so {below === 1 ? 'does the run' : `do the ${below} runs`} that it started</>}. What it wrote stays, and can be reverted. A cancelled run cannot be resumed.
      </p>
    </ConfirmDialog>
  )
}
