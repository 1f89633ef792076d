import { CircleCheck, CircleDashed, CircleX, Power } from 'lucide-react'
import { Badge, type Tone } from '~/ui/Badge'
import { capitalised } from '~/util/format'

const TONES: Record<string, [Tone, typeof CircleX, string]> = {
  new: ['idle', CircleDashed, 'It was not contacted yet.'],
  connected: ['ok', CircleCheck, 'There is a connection now.'],
  idle: ['ok', CircleCheck, 'The last contact worked; there is no connection now.'],
  failing: ['fail', CircleX, 'The last contact failed.'],
  disabled: ['idle', Power, 'Its tools are not offered.'],
  blocked: ['fail', CircleX, 'Programs are not started on this server, or not this one.'],
}

/** The state of a server as colour, icon and word. */
export function ServerHealth({ status }: { status: string }) {
  const [tone, Icon, title] = TONES[status] ?? (['idle', CircleDashed, ''] as const)
  return (
    <Badge tone={tone} title={title} icon={<Icon aria-hidden size={12} strokeWidth={2.25} />}>
      {capitalised(status)}
    </Badge>
  )
}
