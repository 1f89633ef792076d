import { Ban, CircleCheck, CircleDashed, CirclePause, CirclePlay, CircleX, Clock, Hourglass, type LucideIcon, SkipForward, TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { classes } from '~/util/classes'
import { capitalised, words } from '~/util/format'

/** What a colour says. `styles.css` names the classes of each tone, because names that are put together are not found in the source. */
export type Tone = 'ok' | 'run' | 'wait' | 'warn' | 'fail' | 'pause' | 'idle'

export function Badge({ tone = 'idle', icon, children, title }: { tone?: Tone; icon?: ReactNode; children: ReactNode; title?: string }) {
  return (
    <span title={title ?? (typeof children === 'string' && children.length > 24 ? children : undefined)} className={classes('inline-flex h-5 max-w-full items-center align-middle gap-1 rounded-full px-2 text-xs font-medium whitespace-nowrap', `bg-${tone}-soft text-${tone}`)}>
      {icon}
      <span className="min-w-0 truncate">{children}</span>
    </span>
  )
}

/** Marks what a script answered instead of a model. */
export const Rehearsal = () => <Badge title="A script answered instead of a model">Rehearsal</Badge>

/** Every status of runs, workflows, tasks, requests and servers: its colour, its icon and its word. */
const STATUSES: Record<string, [Tone, LucideIcon]> = {
  queued: ['idle', CircleDashed],
  pending: ['idle', CircleDashed],
  planning: ['run', CirclePlay],
  running: ['run', CirclePlay],
  in_progress: ['run', CirclePlay],
  waiting: ['wait', Hourglass],
  completed: ['ok', CircleCheck],
  decided: ['ok', CircleCheck],
  ok: ['ok', CircleCheck],
  failed: ['fail', CircleX],
  error: ['fail', CircleX],
  refused: ['fail', CircleX],
  escalated: ['wait', TriangleAlert],
  overdue: ['wait', TriangleAlert],
  paused: ['pause', CirclePause],
  cancelled: ['idle', Ban],
  skipped: ['idle', SkipForward],
  expired: ['idle', Clock],
  withdrawn: ['idle', Ban],
}

/** Statuses whose name is not what a person would call them. */
const WORDS: Record<string, string> = { escalated: 'Needs a person', ready: 'Can start' }
/** What a status is called everywhere: in lists, pictures and filters. */
export const statusWord = (status: string) => WORDS[status] ?? capitalised(words(status))

export const statusTone = (status: string): Tone => STATUSES[status]?.[0] ?? 'idle'

/** A status as colour, icon and word, never as a colour alone. */
export function Status({ status, detail }: { status: string; detail?: string | null | undefined }) {
  const [tone, Icon] = STATUSES[status] ?? (['idle', CircleDashed] as const)
  return (
    <Badge tone={tone} title={detail ? words(detail) : undefined} icon={<Icon aria-hidden size={12} strokeWidth={2.25} className="shrink-0" />}>
      {statusWord(status)}
      {detail && <span className="font-normal"> · {words(detail)}</span>}
    </Badge>
  )
}
