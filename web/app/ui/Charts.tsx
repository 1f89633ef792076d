// Small charts as SVG. A chart has a text for those who cannot see it, and never says by colour alone.
import type { Tone } from './Badge'

export type Bar = { key: string; label: string; parts: { tone: Tone; value: number }[] }

/** Stacked bars over the whole width. `summary` says what they show. */
export function BarChart({ bars, summary, height = 96 }: { bars: Bar[]; summary: string; height?: number }) {
  const largest = Math.max(1, ...bars.map((bar) => bar.parts.reduce((sum, part) => sum + part.value, 0)))
  const width = 100 / Math.max(1, bars.length)
  return (
    <svg role="img" aria-label={summary} viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" height={height} className="block w-full overflow-visible">
      <line x1="0" x2="100" y1={height - 0.5} y2={height - 0.5} className="stroke-line" vectorEffect="non-scaling-stroke" />
      {bars.map((bar, index) => {
        let top = height - 1
        return (
          <g key={bar.key}>
            <title>{bar.label}</title>
            <rect x={index * width} y={0} width={width} height={height} className="fill-transparent hover:fill-hover" />
            {bar.parts.map((part) => {
              if (part.value === 0) return null
              const size = Math.max(2, (part.value / largest) * (height - 8))
              top -= size
              return <rect key={part.tone} x={index * width + width * 0.16} y={top} width={width * 0.68} height={size} className={`fill-${part.tone}-fill`} />
            })}
          </g>
        )
      })}
    </svg>
  )
}

/** How much of a limit is used. */
export function Meter({ value, limit, label }: { value: number; limit: number; label: string }) {
  const share = limit > 0 ? Math.min(1, value / limit) : 1
  const tone: Tone = share >= 1 ? 'fail' : share >= 0.8 ? 'warn' : 'run'
  return (
    <svg role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={limit} aria-valuenow={Math.min(value, limit)} viewBox="0 0 100 6" preserveAspectRatio="none" className="block h-1.5 w-full rounded-full">
      <rect width="100" height="6" className="fill-sunken" />
      <rect width={share * 100} height="6" className={`fill-${tone}-fill`} />
    </svg>
  )
}
