import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type GraphObject, searchQuery } from '~/api/graph'
import { useDebounced } from '~/hooks/use-debounced'
import { Button } from '~/ui/Button'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { TypeTag } from '~/ui/TypeTag'
import { titleOf } from '~/util/objects'

/** Finds one object by words. */
export function ObjectPicker({ label, value, onChange, problem, exclude }: { label: string; value: GraphObject | undefined; onChange: (next: GraphObject | undefined) => void; problem?: string | undefined; exclude?: string }) {
  const [text, setText] = useState('')
  const query = useDebounced(text.trim(), 200)
  const found = useQuery({ ...searchQuery({ query, mode: 'hybrid', limit: 8 }), enabled: query !== '' })
  const hits = query === '' ? [] : (found.data?.hits ?? []).filter((hit) => hit.object.id !== exclude)
  if (value) {
    return (
      <div>
        <p className="mb-1 text-xs font-medium text-text-2">{label}</p>
        <div className="flex items-center gap-2 rounded-md border border-line bg-sunken py-1 pr-1 pl-2.5">
          <span className="truncate font-medium">{titleOf(value)}</span>
          <TypeTag type={value.type} />
          <Button variant="ghost" size="sm" className="ml-auto" onClick={() => onChange(undefined)}>
            Choose another
          </Button>
        </div>
      </div>
    )
  }
  return (
    <div>
      <Field label={label} problem={problem} hint="Search by name, and choose one.">
        {(ids) => <Input {...ids} type="search" value={text} onChange={(event) => setText(event.target.value)} onKeyDown={(event) => event.key === 'Enter' && event.preventDefault()} />}
      </Field>
      <InlineError error={found.error} />
      {hits.length > 0 && (
        <ul aria-label="Found objects" className="mt-2 max-h-48 overflow-auto rounded-md border border-line">
          {hits.map(({ object }) => (
            <li key={object.id}>
              <button type="button" className="flex h-9 w-full items-center gap-2 px-2.5 text-left -outline-offset-2 hover:bg-hover" onClick={() => onChange(object)}>
                <span className="truncate">{titleOf(object)}</span>
                <TypeTag type={object.type} />
              </button>
            </li>
          ))}
        </ul>
      )}
      {query !== '' && found.data && hits.length === 0 && !found.isPlaceholderData && <p className="mt-2 text-text-2">Nothing was found for “{query}”.</p>}
    </div>
  )
}
