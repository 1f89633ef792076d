import { useQuery } from '@tanstack/react-query'
import { type KeyboardEvent, useState } from 'react'
import { type GraphObject, searchQuery } from '~/api/graph'
import { useChoice } from '~/hooks/use-choice'
import { useDebounced } from '~/hooks/use-debounced'
import { Button } from '~/ui/Button'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { TypeTag } from '~/ui/TypeTag'
import { titleOf } from '~/util/objects'

type Props = { label: string; value: GraphObject | undefined; onChange: (next: GraphObject | undefined) => void; problem?: string | undefined; exclude?: string }

/** Finds one object by words. Arrow keys choose among those that were found, Enter takes one, and Escape closes the list. */
export function ObjectPicker({ label, value, onChange, problem, exclude }: Props) {
  const [text, setText] = useState('')
  const [isOpen, setOpen] = useState(true)
  // The control that a person used is gone, and the one in its place has the focus.
  const [wasUsed, setUsed] = useState(false)
  const query = useDebounced(text.trim(), 200)
  const found = useQuery({ ...searchQuery({ query, mode: 'hybrid', limit: 8 }), enabled: query !== '' })
  const hits = query === '' || text.trim() === '' ? [] : (found.data?.hits ?? []).flatMap(({ object }) => (object.id === exclude ? [] : [object]))
  const isShown = isOpen && hits.length > 0
  const change = (next: GraphObject | undefined) => {
    setUsed(true)
    onChange(next)
  }
  // What was found for another text is not what Enter means.
  const choice = useChoice(hits, (object) => query === text.trim() && !found.isPlaceholderData && change(object), isShown)
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape' && isShown) {
      // The dialog around it stays.
      event.preventDefault()
      event.stopPropagation()
      setOpen(false)
    } else if (event.key === 'Enter' || isShown) choice.onKeyDown(event)
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') setOpen(true)
  }
  if (value) {
    return (
      <div>
        <p className="mb-1 text-xs font-medium text-text-2">{label}</p>
        <div className="flex items-center gap-2 rounded-md border border-line bg-sunken py-1 pr-1 pl-2.5">
          <span className="truncate font-medium">{titleOf(value)}</span>
          <TypeTag type={value.type} />
          <Button variant="ghost" size="sm" autoFocus={wasUsed} className="ml-auto" onClick={() => change(undefined)}>
            Choose another
          </Button>
        </div>
      </div>
    )
  }
  return (
    <div>
      <Field label={label} problem={problem} hint="Search by name, and choose one.">
        {(ids) => (
          <Input
            {...ids}
            {...choice.field}
            type="search"
            autoFocus={wasUsed}
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              setOpen(true)
              choice.forget()
            }}
            onKeyDown={onKeyDown}
          />
        )}
      </Field>
      <InlineError error={found.error} />
      {isShown && (
        <div {...choice.list} aria-label="Found objects" className="mt-2 max-h-48 overflow-auto rounded-md border border-line">
          {hits.map((object, position) => (
            <div key={object.id} {...choice.entry(object, position)} className="flex h-9 cursor-default items-center gap-2 px-2.5 aria-selected:bg-selected">
              <span className="truncate">{titleOf(object)}</span>
              <TypeTag type={object.type} />
            </div>
          ))}
        </div>
      )}
      {query !== '' && found.data && hits.length === 0 && !found.isPlaceholderData && <p className="mt-2 text-text-2">Nothing was found for “{query}”.</p>}
    </div>
  )
}
