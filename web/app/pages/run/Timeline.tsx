import { memo, useId, useMemo, useState } from 'react'
import { useClock } from '~/hooks/use-now'
import { classes } from '~/util/classes'
import { formatDuration } from '~/util/format'
import type { RunDetail } from './run-queries'
import type { RunRecord } from './run-record'
import { type Bar, layOut, SCALE } from './timeline-layout'

const LANE = 16
const GAP = 4
const FILL = { model: 'fill-accent', tool: 'fill-run-fill', fail: 'fill-fail-fill', denied: 'fill-idle-fill', unmade: 'fill-idle-fill', open: 'fill-wait-fill animate-breathe' }

type Props = { run: RunDetail; record: RunRecord; version: number; selected: string | undefined; onSelect: (id: string) => void }

/** Model and tool calls to scale. Arrow keys go from call to call, Enter shows the call in the transcript. */
export function Timeline({ run, record, version, selected, onSelect }: Props) {
  // The picture of a long run is laid out again with its end, so that does not move each second.
  const now = useClock((at) => (run.completedAt ? 0 : at - (at % 5_000)), false)
  const [hovered, setHovered] = useState<string>()
  const [active, setActive] = useState(0)
  const id = useId()
  const start = Date.parse(run.startedAt ?? run.createdAt)
  const end = run.completedAt ? Date.parse(run.completedAt) : Math.max(now, record.items.at(-1)?.at ?? 0)
  // The record is changed in place; its version says when.
  // oxlint-disable-next-line react/exhaustive-deps
  const layout = useMemo(() => layOut(record, start, end), [record, version, start, end])
  const bars = useMemo(() => [...layout.bars].sort((a, b) => a.from - b.from || a.lane - b.lane), [layout])
  if (bars.length === 0) return <p className="text-text-2">{record.ended ? 'The run made no call.' : 'The first call appears here when it starts.'}</p>
  const height = layout.lanes * (LANE + GAP)
  const index = Math.min(active, bars.length - 1)
  const told = bars.find((bar) => bar.id === hovered) ?? bars.find((bar) => bar.id === selected)
  const onKeyDown = (event: React.KeyboardEvent) => {
    const step = event.key === 'ArrowRight' || event.key === 'ArrowDown' ? 1 : event.key === 'ArrowLeft' || event.key === 'ArrowUp' ? -1 : 0
    if (step !== 0) {
      const next = Math.max(0, Math.min(bars.length - 1, index + step))
      setActive(next)
      setHovered(bars[next]?.id)
    } else if (event.key === 'Enter' || event.key === ' ') {
      const bar = bars[index]
      if (bar && bar.id !== 'live') onSelect(bar.id)
    } else return
    event.preventDefault()
  }
  return (
    <div>
      <div className="flex gap-3">
        <div aria-hidden className="hidden w-12 shrink-0 text-xs text-text-2 sm:block">
          <div style={{ height: LANE + GAP }}>Model</div>
          <div>Tools</div>
        </div>
        <div className="min-w-0 flex-1">
          <svg
            role="listbox"
            aria-label="Model and tool calls over time"
            tabIndex={0}
            aria-activedescendant={`${id}-${index}`}
            onKeyDown={onKeyDown}
            onPointerLeave={() => setHovered(undefined)}
            viewBox={`0 0 ${SCALE} ${height}`}
            preserveAspectRatio="none"
            height={height}
            className="block w-full rounded-sm"
          >
            <g aria-hidden role="presentation">
              {layout.ticks.map((tick) => (
                <line key={tick} x1={(tick / layout.length) * SCALE} x2={(tick / layout.length) * SCALE} y1={0} y2={height} className="stroke-line" vectorEffect="non-scaling-stroke" />
              ))}
              {layout.waits.map((wait) => (
                <rect key={wait.from} x={wait.from} width={Math.max(1, wait.to - wait.from)} y={0} height={height} className="fill-wait-soft" />
              ))}
            </g>
            <Bars bars={bars} id={id} selected={selected} told={told?.id} onHover={setHovered} onSelect={onSelect} />
          </svg>
          <Axis ticks={layout.ticks} length={layout.length} />
        </div>
      </div>
      <p className="mt-2 min-h-5 text-xs sm:truncate text-text-2" aria-live="polite">
        {told ? <Told bar={told} /> : 'Point at a call to see what it is, click it to read it in the transcript.'}
        {layout.waits.length > 0 && ' Shaded: it waited for a person.'}
      </p>
    </div>
  )
}

function Told({ bar }: { bar: Bar }) {
  return (
    <>
      <strong className="font-medium text-text">{bar.count > 1 ? `${bar.count} calls` : bar.label}</strong>
      {bar.step > 0 && ` · step ${bar.step}`} · {formatDuration(bar.milliseconds)}
      {bar.tone === 'fail' && <span className="text-fail"> · {bar.count > 1 ? 'with failures' : 'failed'}</span>}
      {bar.tone === 'denied' && ' · denied'}
      {bar.tone === 'unmade' && ' · not made'}
      {bar.tone === 'open' && ' so far'}
    </>
  )
}

const Bars = memo(function Bars({ bars, id, selected, told, onHover, onSelect }: { bars: Bar[]; id: string; selected: string | undefined; told: string | undefined; onHover: (id: string) => void; onSelect: (id: string) => void }) {
  return bars.map((bar, index) => {
    const y = bar.lane * (LANE + GAP) + GAP / 2
    const isMarked = bar.id === selected || bar.id === told
    return (
      <rect
        key={bar.id}
        id={`${id}-${index}`}
        role="option"
        aria-selected={bar.id === selected}
        aria-label={`${bar.count > 1 ? `${bar.count} calls` : bar.label}, step ${bar.step}, ${formatDuration(bar.milliseconds)}${bar.tone === 'fail' ? ', failed' : bar.tone === 'denied' ? ', denied' : bar.tone === 'unmade' ? ', not made' : ''}`}
        x={bar.from}
        y={y}
        width={bar.to - bar.from}
        height={LANE}
        vectorEffect="non-scaling-stroke"
        strokeWidth={isMarked ? 2 : 0}
        className={classes('cursor-pointer', FILL[bar.tone], isMarked && 'stroke-text')}
        onPointerEnter={() => onHover(bar.id)}
        onClick={() => bar.id !== 'live' && onSelect(bar.id)}
      />
    )
  })
})

function Axis({ ticks, length }: { ticks: number[]; length: number }) {
  return (
    <div aria-hidden className="relative mt-1 h-4 text-2xs text-text-2">
      {ticks.map((tick, index) => {
        const share = tick / length
        const look = share > 0.94 ? { right: 0 } : { left: `${share * 100}%` }
        return (
          <span key={tick} style={look} className={classes('absolute whitespace-nowrap', index > 0 && share <= 0.94 && '-translate-x-1/2', index % 2 === 1 && 'max-sm:hidden')}>
            {tick === 0 ? '0' : formatDuration(tick)}
          </span>
        )
      })}
    </div>
  )
}
