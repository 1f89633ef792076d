import { ChevronRight } from 'lucide-react'
import { useState } from 'react'
import { classes } from '~/util/classes'
import { hasParts, jsonText } from '~/util/json'
import { CopyButton } from './CopyButton'

const LONG_TEXT = 400
const MANY_ENTRIES = 100

/** A JSON value that can be folded. Long texts and lists are cut until somebody asks for all of it. */
export function JsonView({ value, open = 2, copy = true }: { value: unknown; open?: number; copy?: boolean }) {
  return (
    <div className="group/json relative max-w-full overflow-auto rounded-md border border-line bg-sunken p-2 font-mono text-xs leading-5">
      {copy && (
        <span className="absolute top-1 right-1">
          <CopyButton text={typeof value === 'string' ? value : jsonText(value, 2)} label="Copy the value" />
        </span>
      )}
      <Node value={value} depth={0} open={open} />
    </div>
  )
}

function Node({ value, name, depth, open }: { value: unknown; name?: string; depth: number; open: number }) {
  if (hasParts(value)) return <Branch value={value} name={name} depth={depth} open={open} />
  return (
    <div className="pl-4">
      <Name name={name} />
      <Leaf value={value} />
    </div>
  )
}

const Name = ({ name }: { name: string | undefined }) => (name === undefined ? null : <span className="whitespace-pre text-text-2">{name}: </span>)

function Branch({ value, name, depth, open }: { value: object; name: string | undefined; depth: number; open: number }) {
  const [isOpen, setOpen] = useState(depth < open)
  const [all, setAll] = useState(false)
  const isList = Array.isArray(value)
  const entries = Object.entries(value)
  const shown = all ? entries : entries.slice(0, MANY_ENTRIES)
  const size = isList ? `[${entries.length}]` : `{${entries.length}}`
  return (
    <div>
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} className="flex items-center rounded-sm text-left hover:text-accent-text">
        <ChevronRight aria-hidden size={12} className={classes('mr-1 shrink-0 transition-transform', isOpen && 'rotate-90')} />
        <Name name={name} />
        <span className="text-text-3">{size}</span>
      </button>
      {isOpen && (
        <div className="ml-1.5 border-l border-line pl-1.5">
          {shown.map(([key, child]) => (
            <Node key={key} name={key} value={child} depth={depth + 1} open={open} />
          ))}
          {shown.length < entries.length && <More label={`Show all ${entries.length}`} onClick={() => setAll(true)} />}
        </div>
      )}
    </div>
  )
}

function Leaf({ value }: { value: unknown }) {
  const [all, setAll] = useState(false)
  if (typeof value !== 'string') return <span className={value === null ? 'text-text-3' : 'text-run'}>{String(value)}</span>
  const cut = !all && value.length > LONG_TEXT
  return (
    <span className="break-words whitespace-pre-wrap text-ok">
      {cut ? `${value.slice(0, LONG_TEXT)}…` : value}
      {cut && <More label={`Show all ${value.length.toLocaleString('en')} characters`} onClick={() => setAll(true)} />}
    </span>
  )
}

const More = ({ label, onClick }: { label: string; onClick: () => void }) => (
  <button type="button" onClick={onClick} className="ml-1 rounded-sm font-sans text-accent-text underline">
    {label}
  </button>
)
