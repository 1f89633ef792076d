import { Dialog } from '@base-ui/react/dialog'
import { Search } from 'lucide-react'
import { useCallback, useId, useRef, useState } from 'react'
import { takeTyped } from '~/hooks/typed-ahead'
import { classes } from '~/util/classes'
import { type Entry, useEntries } from './palette-entries'

/** The palette over pages, actions, agents, runs, workflows and objects. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  // By its id, because results that arrive later move the entries. Until a person chooses, it is the first.
  const [chosen, setChosen] = useState<string>()
  const { entries, isSearching, problem, note } = useEntries(text)
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  // As soon as the field is in the document, and before any key press: what was typed meanwhile is its text.
  const takeOver = useCallback((element: HTMLInputElement | null) => {
    field.current = element
    if (!element) return
    element.focus({ preventScroll: true })
    const typed = takeTyped()
    if (typed) setText((known) => known + typed)
  }, [])
  const index = Math.max(0, entries.findIndex((entry) => entry.id === chosen))

  const run = (entry: Entry | undefined) => {
    if (!entry) return
    onClose()
    entry.run()
  }
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key === 'ArrowDown') setChosen(entries[(index + 1) % Math.max(1, entries.length)]?.id)
    else if (event.key === 'ArrowUp') setChosen(entries[(index - 1 + entries.length) % Math.max(1, entries.length)]?.id)
    else if (event.key === 'Enter') run(entries[index])
    else return
    event.preventDefault()
  }
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
        <Dialog.Popup initialFocus={field} aria-label="Search or run a command" className="animate-rise fixed inset-x-3 top-[10vh] z-50 mx-auto flex max-h-[70vh] max-w-xl flex-col overflow-hidden rounded-xl border border-line bg-raised shadow-pop outline-none">
          <div className="flex items-center gap-2 border-b border-line px-4">
            <Search aria-hidden size={16} className="text-text-3" />
            <input
              ref={takeOver}
              role="combobox"
              aria-expanded
              aria-controls={`${id}-list`}
              aria-activedescendant={entries[index] ? `${id}-${index}` : undefined}
              aria-label="Search or run a command"
              autoComplete="off"
              placeholder="Pages, actions, agents, runs, workflows, objects…"
              value={text}
              onChange={(event) => {
                setText(event.target.value)
                setChosen(undefined)
              }}
              onKeyDown={onKeyDown}
              className="h-12 w-full bg-transparent text-base text-text outline-none placeholder:text-text-3"
            />
          </div>
          <div id={`${id}-list`} role="listbox" aria-label="Results" className="overflow-auto p-2">
            {entries.map((entry, position) => (
              <div key={entry.id}>
                {entry.group !== entries[position - 1]?.group && (
                  <div role="presentation" className="px-2 pt-2 pb-1 text-xs font-medium text-text-3">
                    {entry.group}
                  </div>
                )}
                <div
                  id={`${id}-${position}`}
                  role="option"
                  tabIndex={-1}
                  aria-selected={position === index}
                  ref={(element) => {
                    if (position === index) element?.scrollIntoView({ block: 'nearest' })
                  }}
                  onPointerMove={() => setChosen(entry.id)}
                  onClick={() => run(entry)}
                  onKeyDown={onKeyDown}
                  className={classes('flex h-8 cursor-default items-center gap-2 rounded-md px-2', position === index && 'bg-selected')}
                >
                  <span className="min-w-0 flex-1 truncate">{entry.label}</span>
                  {entry.hint && <span className="truncate text-xs text-text-2">{entry.hint}</span>}
                </div>
              </div>
            ))}
            {entries.length === 0 && <p className="px-2 py-6 text-center text-text-2">{isSearching ? 'Searching…' : problem ? 'Nothing was found among the pages and actions.' : 'Nothing was found. Try another word.'}</p>}
          </div>
          {note && <p className="border-t border-line px-4 py-2 text-xs text-text-2">{note}</p>}
          {problem && <p role="alert" className="border-t border-line px-4 py-2 text-xs text-fail">{problem}</p>}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
