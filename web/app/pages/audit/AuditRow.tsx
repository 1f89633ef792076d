import { Link } from '@tanstack/react-router'
import { ChevronRight } from 'lucide-react'
import type { Schemas } from '~/api/types'
import { JsonView } from '~/ui/JsonView'
import { KeyValue } from '~/ui/KeyValue'
import { RelativeTime } from '~/ui/Values'
import { classes } from '~/util/classes'
import { formatAbsolute, words } from '~/util/format'
import { actionWords } from './action-words'

type Entry = Schemas['AuditEntry']

/** A login by a link has an address and no token yet. */
const actorOf = ({ token, runId, address }: Entry) => (runId ? 'An agent' : (token?.name ?? (address ? 'Without a token' : 'The server')))

/** One change: a line that opens to its details. */
export function AuditRow({ entry, isOpen, onToggle }: { entry: Entry; isOpen: boolean; onToggle: () => void }) {
  const { target } = entry
  const run = entry.runId && (
    <Link to="/runs/$runId" params={{ runId: entry.runId }} className="text-accent-text underline">
      The run that did it
    </Link>
  )
  return (
    <li>
      <button type="button" aria-expanded={isOpen} onClick={onToggle} className="flex w-full items-center gap-3 px-4 py-2.5 text-left text-sm hover:bg-hover">
        <ChevronRight aria-hidden size={14} className={classes('shrink-0 text-text-3 transition-transform', isOpen && 'rotate-90')} />
        <span className="min-w-0 flex-1 sm:grid sm:grid-cols-[minmax(0,3fr)_minmax(0,4fr)_minmax(0,3fr)] sm:gap-3">
          <span className="block truncate font-medium">{actionWords(entry.action)}</span>
          <span className="block truncate">{target.name || target.id || words(target.kind)}</span>
          <span className="block truncate text-text-2">{actorOf(entry)}{entry.address && ` · ${entry.address}`}</span>
        </span>
        <RelativeTime at={entry.at} className="w-18 shrink-0 text-right text-xs whitespace-nowrap text-text-2" />
      </button>
      {isOpen && (
        <div className="space-y-3 bg-sunken px-4 py-3 sm:pl-11">
          <KeyValue
            items={[
              ['When', formatAbsolute(entry.at)],
              ['Who', entry.token ? <>{entry.token.name} <span className="inline-block font-mono text-xs wrap-anywhere text-text-2">{entry.token.id}</span></> : actorOf(entry)],
              ['From', entry.address ? `${entry.address}${entry.sessionId ? ', by a browser' : ', with the token'}` : 'A command on the data folder'],
              ['What', <>{words(target.kind)} {target.name} {target.id && <span className="inline-block font-mono text-xs wrap-anywhere text-text-2">{target.id}</span>}</>],
              ['Run', run],
            ]}
          />
          <JsonView value={entry.details} />
        </div>
      )}
    </li>
  )
}
