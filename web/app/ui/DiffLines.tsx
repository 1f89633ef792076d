import { type ReactNode, useState } from 'react'
import { type DiffLine, foldLines } from '~/util/diff'

/** The text of a line. The words that only this line has are underlined, so that nobody needs the colour to see them. */
export const LineText = ({ line }: { line: DiffLine | undefined }) =>
  line?.words?.map(({ text, isChanged }, index) => (isChanged ? <u key={index} className="font-semibold decoration-2 underline-offset-2">{text}</u> : text)) ?? line?.text

/** Says where comparing was given up: nobody should take each line for a change. */
export const GivenUp = ({ lines }: { lines: DiffLine[] }) =>
  lines.some(({ isWhole }) => isWhole) && <p className="px-2 py-1 font-sans text-xs text-text-2">Too many lines differ to compare each of them: the part with the differences is shown as a whole, as it was and as it became.</p>

/** Lines, of which those far from every change are folded away until somebody wants them. */
export function useFolded<T>(lines: T[], isSame: (line: T) => boolean, draw: (line: T, index: number) => ReactNode): { key: number; button: ReactNode; lines: ReactNode[] }[] {
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set())
  return foldLines(lines, isSame).map(({ at, lines: part, isFolded }) => {
    const isOpen = opened.has(at)
    const toggle = () => setOpened(isOpen ? new Set([...opened].filter((one) => one !== at)) : new Set([...opened, at]))
    return {
      key: at,
      button: isFolded && (
        <button type="button" aria-expanded={isOpen} onClick={toggle} className="block w-full bg-sunken px-2 py-0.5 text-left font-sans text-accent-text hover:underline">
          {isOpen ? 'Hide' : 'Show'} {part.length} unchanged lines
        </button>
      ),
      lines: isFolded && !isOpen ? [] : part.map((line, index) => draw(line, at + index)),
    }
  })
}
