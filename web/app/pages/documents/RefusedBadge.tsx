import { CircleX } from 'lucide-react'
import { Badge } from '~/ui/Badge'
import { words } from '~/util/format'
import type { Firing } from './use-extractions'

/** Says that an agent was not started, and why to whoever points at it. */
export const RefusedBadge = ({ firing }: { firing: Firing }) => (
  <Badge tone="fail" icon={<CircleX aria-hidden size={12} strokeWidth={2.25} className="shrink-0" />} title={firing.reason ? words(firing.reason).replaceAll('`', '') : 'No reason was given.'}>
    Refused
  </Badge>
)
