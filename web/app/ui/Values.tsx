// Times, durations, money and tokens, each shown the same way everywhere.
import { useClock } from '~/hooks/use-now'
import { formatAbsolute, formatCompact, formatCount, formatDuration, formatMoney, formatRelative } from '~/util/format'

/** "5 min ago", with the exact time as its title. */
export function RelativeTime({ at, className }: { at: string | null | undefined; className?: string }) {
  const text = useClock((now) => (at ? formatRelative(Date.parse(at), now) : ''), false)
  if (!at) return <None />
  return (
    <time dateTime={at} title={formatAbsolute(at)} className={className}>
      {text}
    </time>
  )
}

/** The time that something took, or has taken so far when it has no end. */
export function Duration({ milliseconds, since }: { milliseconds?: number | null | undefined; since?: string | null | undefined }) {
  const isOver = milliseconds !== null && milliseconds !== undefined
  const text = useClock((now) => (since && !isOver ? formatDuration(Math.max(0, now - Date.parse(since))) : ''), Boolean(since) && !isOver)
  if (isOver) return <span>{formatDuration(milliseconds)}</span>
  if (!since) return <None />
  return <span title={`since ${formatAbsolute(since)}`}>{text}</span>
}

export function Money({ usd }: { usd: number | null | undefined }) {
  return usd === null || usd === undefined ? <None title="The price of this model is not known" /> : <span title={`$${usd}`}>{formatMoney(usd)}</span>
}

export function Tokens({ input, output, total }: { input?: number; output?: number; total?: number }) {
  const sum = total ?? (input ?? 0) + (output ?? 0)
  const title = input === undefined ? `${formatCount(sum)} tokens` : `${formatCount(input)} in, ${formatCount(output ?? 0)} out`
  return <span title={title}>{formatCompact(sum)}</span>
}

const None = ({ title }: { title?: string }) => (
  <span title={title} className="text-text-3">
    –
  </span>
)
