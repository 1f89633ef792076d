import { Bookmark, ChevronDown, Plus, Trash2 } from 'lucide-react'
import { useMemo, useState } from 'react'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { Field, Input } from '~/ui/Field'
import { Menu } from '~/ui/Menu'
import { toast } from '~/ui/toast'
import { useActions } from '~/util/actions'
import type { RunSearch } from './run-filters'
import { removeView, type SavedView, saveView, useSavedViews } from './saved-views'

const NONE: Record<keyof RunSearch, string> = { status: '', agent: '', reason: '', origin: '', since: '', until: '', root: '', q: '' }
const filled = (search: RunSearch): Record<string, string> => Object.fromEntries(Object.entries(search).filter((entry): entry is [string, string] => Boolean(entry[1])))
const isSame = (view: SavedView, search: Record<string, string>) => JSON.stringify(Object.entries(view.search).sort()) === JSON.stringify(Object.entries(search).sort())

/** Opens, saves and removes named filters. */
export function ViewsMenu({ search, onChange }: { search: RunSearch; onChange: (change: Partial<Record<keyof RunSearch, string | undefined>>) => void }) {
  const views = useSavedViews()
  const [isNaming, setNaming] = useState(false)
  const current = filled(search)
  const shown = views.find((view) => isSame(view, current))
  const isEmpty = Object.keys(current).length === 0
  useActions(useMemo(() => views.map((view) => ({ id: `view-${view.name}`, label: `Show the view ${view.name}`, group: 'On this page', run: () => onChange({ ...NONE, ...view.search }) })), [views, onChange]))
  return (
    <>
      <Menu
        label="Saved views"
        align="end"
        trigger={
          <button type="button" className="inline-flex h-7 max-w-44 items-center gap-1 rounded-md border border-line bg-surface px-2 text-xs font-medium hover:bg-hover">
            <Bookmark aria-hidden size={13} />
            <span className="truncate">{shown?.name ?? 'Views'}</span>
            <ChevronDown aria-hidden size={12} />
          </button>
        }
        items={[
          ...views.map((view) => ({ label: view.name, checked: view === shown, icon: <Bookmark aria-hidden size={14} />, onSelect: () => onChange({ ...NONE, ...view.search }) })),
          { label: 'Save these filters…', icon: <Plus aria-hidden size={14} />, disabledReason: isEmpty ? 'Set a filter first.' : shown ? `They are saved as ${shown.name}.` : undefined, onSelect: () => setNaming(true) },
          ...(shown ? [{ label: `Remove ${shown.name}`, icon: <Trash2 aria-hidden size={14} />, danger: true, onSelect: () => { removeView(shown.name); toast(`The view ${shown.name} was removed.`) } }] : []),
        ]}
      />
      {isNaming && <NameDialog search={current} names={views.map((view) => view.name)} onClose={() => setNaming(false)} />}
    </>
  )
}

function NameDialog({ search, names, onClose }: { search: Record<string, string>; names: string[]; onClose: () => void }) {
  const [text, setText] = useState('')
  const name = text.trim()
  const save = () => {
    if (!name) return
    saveView({ name, search })
    toast(`The view ${name} was saved in this browser.`)
    onClose()
  }
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={save}
      title="Save these filters"
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Do not save</Button>
          <Button variant="primary" disabledReason={name ? undefined : 'Give the view a name.'} type="submit">
            Save the view
          </Button>
        </>
      }
    >
      <Field label="Name" hint={names.includes(name) ? 'There is a view of this name. It will be replaced.' : 'It is kept in this browser.'}>
        {(ids) => <Input {...ids} autoFocus maxLength={60} value={text} onChange={(event) => setText(event.target.value)} />}
      </Field>
    </Dialog>
  )
}
