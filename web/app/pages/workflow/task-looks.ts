import type { ShownStatus } from './workflow-query'

type Look = {
  /** The marks of the icon, drawn from its centre with relative commands. */
  marks: string
  dashed?: boolean
  card: string
  icon: string
}

const CIRCLE = 'm-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0'

/**
 * How a task looks in the picture: a colour and an icon for each status; `statusWord` has its word. The icons are paths with relative
 * commands: a thousand nested pictures or groups with a place of their own would make moving slow.
 */
export const TASK_LOOKS: Record<ShownStatus, Look> = {
  pending: { marks: CIRCLE, dashed: true, card: 'fill-surface stroke-line', icon: 'stroke-idle' },
  ready: { marks: `${CIRCLE}m6 0h2`, card: 'fill-surface stroke-line-strong', icon: 'stroke-text-2' },
  in_progress: { marks: `${CIRCLE}m5.2-2.8v5.6l4.6-2.8z`, card: 'fill-run-soft stroke-run-fill', icon: 'stroke-run' },
  completed: { marks: `${CIRCLE}m4 .2l2.2 2.2l4-4.4`, card: 'fill-ok-soft stroke-ok-fill', icon: 'stroke-ok' },
  failed: { marks: `${CIRCLE}m4.6-2.4l4.8 4.8m0-4.8l-4.8 4.8`, card: 'fill-fail-soft stroke-fail-fill', icon: 'stroke-fail' },
  paused: { marks: `${CIRCLE}m5.2-2.6v5.2m3.6-5.2v5.2`, card: 'fill-pause-soft stroke-pause-fill', icon: 'stroke-pause' },
  skipped: { marks: 'm-5-5.5v11l7.5-5.5zm10 0v11', card: 'fill-idle-soft stroke-line', icon: 'stroke-idle' },
  escalated: { marks: 'm0-6.5l7.2 12.5h-14.4zm0 4.5v3.6m0 2v.2', card: 'fill-wait-soft stroke-wait-fill', icon: 'stroke-wait' },
}
