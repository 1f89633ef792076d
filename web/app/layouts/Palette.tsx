import { Dialog } from '@base-ui/react/dialog'
import { Search } from 'lucide-react'
import { useCallback, useRef, useState } from 'react'
import { takeTyped } from '~/hooks/typed-ahead'
import { useChoice } from '~/hooks/use-choice'
import { useEntries } from './palette-entries'

/** The palette over pages, actions, agents, runs, workflows and objects. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const { entries, isSearching, problem, note } = useEntries(text)
  const field = useRef<HTMLInputElement>(null)
  // As soon as the field is in the document, and before any key press: what was typed meanwhile is its text.
  const takeOver = useCallback((element: HTMLInputElement | null) => {
    field.current = element
    if (!element) return
    element.focus({ preventScroll: true })
    const typed = takeTyped()
    if (typed) setText((known) => known + typed)
  }, [])
  const choice = useChoice(entries, (entry) => {
    onClose()
    entry.run()
  })
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
        <Dialog.Popup initialFocus={field} aria-label="Search or run a command" className="animate-rise fixed inset-x-3 top-[10vh] z-50 mx-auto flex max-h-[70vh] max-w-xl flex-col overflow-hidden rounded-xl border border-line bg-raised shadow-pop outline-none">
          <div className="flex items-center gap-2 border-b border-line px-4">
            <Search aria-hidden size={16} className="text-text-3" />
            <input
              ref={takeOver}
              {...choice.field}
              aria-label="Search or run a command"
              placeholder="Pages, actions, agents, runs, workflows, objects…"
              value={text}
              onChange={(event) => {
                setText(event.target.value)
                choice.forget()
              }}
              onKeyDown={choice.onKeyDown}
              className="h-12 w-full bg-transparent text-base text-text outline-none placeholder:text-text-3"
            />
          </div>
          <div {...choice.list} aria-label="Results" className="overflow-auto p-2">
            {entries.map((entry, position) => (
              <div key={entry.id}>
                {entry.group !== entries[position - 1]?.group && (
                  <div role="presentation" className="px-2 pt-2 pb-1 text-xs font-medium text-text-3">
                    {entry.group}
                  </div>
                )}
                <div {...choice.entry(entry, position)} className="group flex min-h-8 cursor-default items-center gap-2 rounded-md px-2 py-1 aria-selected:bg-selected">
                  <span className="min-w-0 flex-1">
                    <span className="block truncate group-aria-disabled:text-text-3">{entry.label}</span>
                    {entry.disabledReason && <span className="block text-xs text-text-2">{entry.disabledReason}</span>}
                  </span>
                  {entry.hint && <span className="max-w-1/2 truncate text-xs text-text-2">{entry.hint}</span>}
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
