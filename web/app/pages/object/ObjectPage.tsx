import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { ArchiveRestore, Pencil, Trash2, Waypoints } from 'lucide-react'
import { useMemo } from 'react'
import { isMissing } from '~/api/errors'
import { type GraphObject, historyQuery, objectQuery } from '~/api/graph'
import { useScope } from '~/api/session'
import { useKeptFocus } from '~/hooks/use-kept-focus'
import { oneOf, type RawSearch, useUrlDialog, useUrlState } from '~/hooks/use-url-state'
import { AsOfBanner, AsOfField } from '~/ui/AsOf'
import { Badge } from '~/ui/Badge'
import { Button, buttonClass } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { CopyButton } from '~/ui/CopyButton'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { KeyValue } from '~/ui/KeyValue'
import { LongTitle, PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { Tabs } from '~/ui/Tabs'
import { TypeTag } from '~/ui/TypeTag'
import { RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { useActions } from '~/util/actions'
import { titleOf } from '~/util/objects'
import { parseTime } from '~/util/periods'
import { AuthorLine } from './AuthorLine'
import { DeleteDialog, RestoreDialog } from './ChangeDialogs'
import { EditObjectDialog } from './EditObjectDialog'
import { HistoryPanel } from './HistoryPanel'
import { PropertiesCard } from './PropertiesCard'
import { RelationshipsCard } from './RelationshipsCard'
import { SourcesCard } from './SourcesCard'

const number = (text: string | undefined) => (text && /^\d+$/.test(text) ? Number(text) : undefined)
const parse = (raw: RawSearch) => ({ tab: oneOf(['history'], raw.tab), v: number(raw.v), with: number(raw.with), side: oneOf(['true'], raw.side), asOf: parseTime(raw.asOf) })

const DIALOGS = ['edit', 'delete', 'restore'] as const
type Dialog = (typeof DIALOGS)[number]

/** The object as it is, or its last version if it was deleted. While another moment is read, what was shown stays. */
function useObject(id: string, asOf: string | undefined, allowed: boolean) {
  const live = useQuery({ ...objectQuery(id, asOf), enabled: allowed, retry: false, placeholderData: keepPreviousData })
  const isGone = !asOf && isMissing(live.error)
  const history = useInfiniteQuery({ ...historyQuery(id), enabled: allowed && isGone, retry: false })
  const newest = history.data?.pages[0]?.items[0]
  const deleted = isGone && newest?.deletedAt ? newest : undefined
  const error = deleted || (isGone && history.isPending) ? undefined : live.error
  return { object: isMissing(live.error) ? deleted : live.data, isReading: live.isPlaceholderData, error, retry: () => void live.refetch() }
}

export function ObjectPage() {
  const { objectId = '' } = useParams({ strict: false })
  return <ObjectView key={objectId} id={objectId} />
}

function ObjectView({ id }: { id: string }) {
  const [search, change] = useUrlState(parse)
  const read = useScope('graph:read')
  const write = useScope('graph:write')
  const { object, isReading, error, retry } = useObject(id, search.asOf, read.allowed)
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const isDeleted = Boolean(object?.deletedAt)
  const reason = search.asOf ? 'Nothing can be changed in the past.' : isDeleted ? 'The object is deleted. Restore it first.' : isReading ? 'The object is being loaded.' : write.reason
  const isShown = object !== undefined && !error
  const title = isShown ? titleOf(object) : 'Object'
  // A deleted object takes its buttons with it.
  const place = useKeptFocus<HTMLDivElement>()
  useActions(
    useMemo(
      () =>
        isShown
          ? [
              { id: 'object-edit', label: 'Edit this object…', group: 'On this page', disabledReason: reason, run: () => open('edit') },
              { id: 'object-delete', label: 'Delete this object…', group: 'On this page', disabledReason: reason, run: () => open('delete') },
            ]
          : [],
      [reason, isShown, open],
    ),
  )
  return (
    <>
      <PageHeader
        title={title}
        above={
          <Link to="/graph" search={{ asOf: search.asOf }} className="hover:underline">
            Graph
          </Link>
        }
        heading={
          isShown ? (
            <span className="flex flex-wrap items-center gap-2">
              <LongTitle text={title} />
              <TypeTag type={object.type} />
              {object.status && <Badge tone="run">{object.status}</Badge>}
              {isDeleted && <Badge tone="fail">Deleted</Badge>}
            </span>
          ) : undefined
        }
        actions={
          read.allowed && (
            <div ref={place} tabIndex={-1} role="group" aria-label="Actions on the object" className="flex flex-wrap items-center gap-2">
              {/* It is here whether the object was there or not, so that it keeps the focus from one moment to the next. */}
              <AsOfField value={search.asOf} onChange={(asOf) => change({ asOf })} />
              {isShown && <ObjectActions object={object} asOf={search.asOf} reason={reason} restoreReason={write.reason} onOpen={open} />}
            </div>
          )
        }
      />
      {search.asOf && <AsOfBanner asOf={search.asOf} onLeave={() => change({ asOf: '' })} />}
      {!read.allowed ? (
        <EmptyState title="You cannot see the graph.">{read.reason}</EmptyState>
      ) : error && search.asOf && isMissing(error) ? (
        <EmptyState title="The object was not there at that moment." action={<Button onClick={() => change({ asOf: '' })}>Back to now</Button>}>
          It was created later, or was deleted then.
        </EmptyState>
      ) : error ? (
        <ErrorState error={error} what="The object could not be loaded." onRetry={retry} />
      ) : !object ? (
        <SkeletonRows rows={8} />
      ) : (
        <div aria-busy={isReading || undefined}>
          <Tabs
            label="Views of the object"
            value={search.tab ?? 'object'}
            onChange={(tab) => change({ tab: tab === 'history' ? tab : '', v: '', with: '' })}
            tabs={[
              { key: 'object', label: 'Object', panel: <Facts object={object} asOf={search.asOf} title={title} reason={reason} /> },
              // The number of versions is not known at an earlier moment.
              { key: 'history', label: 'History', count: search.asOf ? undefined : object.version, panel: <HistoryPanel object={object} search={search} onChange={change} disabledReason={reason} /> },
            ]}
          />
        </div>
      )}
      {object && dialog === 'edit' && <EditObjectDialog object={object} disabledReason={reason} onClose={close} />}
      {object && dialog === 'delete' && <DeleteDialog object={object} disabledReason={reason} onClose={close} />}
      {object && dialog === 'restore' && <RestoreDialog object={object} disabledReason={isDeleted ? write.reason : 'The object is not deleted.'} onClose={close} />}
    </>
  )
}

type ActionsProps = { object: GraphObject; asOf: string | undefined; reason: string | undefined; restoreReason: string | undefined; onOpen: (dialog: Dialog) => void }

function ObjectActions({ object, asOf, reason, restoreReason, onOpen }: ActionsProps) {
  return (
    <>
      {object.deletedAt ? (
        <Button icon={<Waypoints aria-hidden size={14} />} disabledReason="A deleted object has no connections. Restore it first.">
          Explore
        </Button>
      ) : (
        <Link to="/graph" search={{ view: 'explore', from: object.id, asOf }} className={buttonClass()}>
          <Waypoints aria-hidden size={14} />
          Explore
        </Link>
      )}
      {object.deletedAt ? (
        <Button variant="primary" icon={<ArchiveRestore aria-hidden size={14} />} disabledReason={restoreReason} onClick={() => onOpen('restore')}>
          Restore…
        </Button>
      ) : (
        <>
          <Button icon={<Trash2 aria-hidden size={14} />} disabledReason={reason} onClick={() => onOpen('delete')}>
            Delete…
          </Button>
          <Button variant="primary" icon={<Pencil aria-hidden size={14} />} disabledReason={reason} onClick={() => onOpen('edit')}>
            Edit
          </Button>
        </>
      )}
    </>
  )
}

function Facts({ object, asOf, title, reason }: { object: GraphObject; asOf: string | undefined; title: string; reason: string | undefined }) {
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_minmax(0,22rem)]">
      <div className="grid min-w-0 gap-4">
        <PropertiesCard object={object} />
        {!object.deletedAt && <RelationshipsCard id={object.id} title={title} asOf={asOf} disabledReason={reason} />}
      </div>
      <div className="grid min-w-0 gap-4">
        <Card title={`Version ${object.version}`}>
          <p className="mb-0.5 text-xs text-text-2">Written by</p>
          <div className="mb-3">
            <AuthorLine author={object.author} />
          </div>
          <KeyValue
            items={[
              ['Changed', <RelativeTime key="changed" at={object.deletedAt ?? object.updatedAt} />],
              ['Created', <RelativeTime key="created" at={object.createdAt} />],
              ['Key', object.key && <code key="key" className="font-mono text-xs">{object.key}</code>],
              [
                'Id',
                <span key="id" className="flex items-center gap-1">
                  <code className="font-mono text-xs wrap-anywhere">{object.id}</code>
                  <CopyButton text={object.id} label="Copy the id" />
                </span>,
              ],
            ]}
          />
          {object.reason && <p className="mt-3 rounded-md bg-sunken px-3 py-2 text-xs break-words text-text-2"><WithCode text={object.reason} /></p>}
        </Card>
        <SourcesCard sources={object.sources ?? []} />
      </div>
    </div>
  )
}
