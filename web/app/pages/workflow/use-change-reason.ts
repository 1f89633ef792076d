import { useScope } from '~/api/session'
import type { WorkflowStatus } from '~/api/types'

/** Why this login cannot change a workflow and its tasks. While the workflow waits for a person, a change is a decision. */
export function useChangeReason(status: WorkflowStatus): string | undefined {
  const invokes = useScope('agents:invoke')
  const decides = useScope('approvals:decide')
  return invokes.reason ?? (status === 'escalated' ? decides.reason : undefined)
}
