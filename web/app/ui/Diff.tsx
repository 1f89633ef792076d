import { Fragment } from 'react'
import { classes } from '~/util/classes'
import { asText, diffLines } from '~/util/diff'
import { GivenUp, LineText, useFolded } from './DiffLines'

const LOOK = { same: 'text-text-2', added: 'bg-ok-soft text-ok', removed: 'bg-fail-soft text-fail' }
const SIGN = { same: ' ', added: '+', removed: '−' }

/** The lines that two JSON values or texts have in common, and those that only one has. */
export function Diff({ before, after, label = 'Changes' }: { before: unknown; after: unknown; label?: string }) {
  const lines = diffLines(asText(before), asText(after))
  const parts = useFolded(lines, (line) => line.kind === 'same', (line, index) => (
    <div key={index} className={classes('flex px-2 whitespace-pre-wrap', LOOK[line.kind])}>
      <span className="w-4 shrink-0 select-none">{SIGN[line.kind]}</span>
      {line.kind !== 'same' && <span className="sr-only">{line.kind}: </span>}
      <span className="min-w-0 break-words"><LineText line={line} /></span>
    </div>
  ))
  if (lines.every((line) => line.kind === 'same')) return <p className="text-text-2">There is no difference.</p>
  return (
    // The region scrolls, so it can have the focus.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div role="region" aria-label={label} tabIndex={0} className="max-h-120 overflow-auto rounded-md border border-line bg-surface py-1 font-mono text-xs leading-5">
      <GivenUp lines={lines} />
      {parts.map((part) => (
        <Fragment key={part.key}>
          {part.button}
          {part.lines}
        </Fragment>
      ))}
    </div>
  )
}
