import { Fragment } from 'react'
import { useMinWidths } from '~/hooks/use-min-width'
import { classes } from '~/util/classes'
import { asText, diffLines, pairLines } from '~/util/diff'
import { Diff } from './Diff'
import { GivenUp, LineText, useFolded } from './DiffLines'

const CELL = 'min-h-5 px-2 whitespace-pre-wrap break-words'

type Props = { before: unknown; after: unknown; heads: [string, string]; label: string }

/** Two JSON values or texts side by side, each line beside the one that it became; one below the other where there is no room. */
export function DiffColumns(props: Props) {
  const { sm } = useMinWidths()
  return sm ? <Columns {...props} /> : <Diff {...props} />
}

function Columns({ before, after, heads, label }: Props) {
  const lines = diffLines(asText(before), asText(after))
  const rows = pairLines(lines)
  const parts = useFolded(rows, (row) => row.isSame, (row, index) => (
    <tr key={index} className="align-top">
      <td className={classes(CELL, row.isSame ? 'text-text-2' : row.before && 'bg-fail-soft text-fail')}>
        {!row.isSame && row.before && <span className="sr-only">removed: </span>}
        <LineText line={row.before} />
      </td>
      <td className={classes(CELL, 'border-l border-line', row.isSame ? 'text-text-2' : row.after && 'bg-ok-soft text-ok')}>
        {!row.isSame && row.after && <span className="sr-only">added: </span>}
        <LineText line={row.after} />
      </td>
    </tr>
  ))
  if (rows.every((row) => row.isSame)) return <p className="text-text-2">There is no difference.</p>
  return (
    // The region scrolls, so it can have the focus.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div role="region" aria-label={label} tabIndex={0} className="max-h-120 overflow-auto rounded-md border border-line bg-surface">
      <GivenUp lines={lines} />
      <table className="w-full min-w-128 table-fixed border-collapse font-mono text-xs leading-5">
        <thead className="sticky top-0 bg-surface font-sans">
          <tr className="border-b border-line text-left text-text-2">
            {heads.map((head, index) => (
              <th key={head} scope="col" className={classes('px-2 py-1 font-medium', index === 1 && 'border-l border-line')}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {parts.map((part) => (
            <Fragment key={part.key}>
              {part.button && <tr><td colSpan={2}>{part.button}</td></tr>}
              {part.lines}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  )
}
