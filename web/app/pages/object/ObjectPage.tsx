import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { ArchiveRestore, Pencil, Trash2, Waypoints } from 'lucide-react'
import { type ReactNode, useMemo, useState } from 'react'
import { ApiError } from '~/api/errors'
import { type GraphObject, historyQuery, objectQuery } from '~/api/graph'
import { useScope } from '~/api/session'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { AsOfBanner, AsOfField } from '~/ui/AsOf'
import { Badge } from '~/ui/Badge'
import { Button, buttonClass } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { CopyButton } from '~/ui/CopyButton'
import { EmptyState } from '~/ui/EmptyState'
import { ErrorState } from '~/ui/ErrorState'
import { KeyValue } from '~/ui/KeyValue'
import { PageHeader } from '~/ui/PageHeader'
import { SkeletonRows } from '~/ui/Skeleton'
import { Tabs } from '~/ui/Tabs'
import { TypeTag } from '~/ui/TypeTag'
import { RelativeTime } from '~/ui/Values'
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
const parse = (raw: RawSearch) => ({ tab: oneOf(['history'], raw.tab), v: number(raw.v), with: number(raw.with), asOf: parseTime(raw.asOf) })

type Search = ReturnType<typeof parse>

const isMissing = (error: unknown) => error instanceof ApiError && error.status === 404

/** The object as it is, or its last version if it was deleted. */
function useObject(id: string, asOf: string | undefined, allowed: boolean) {
  const live = useQuery({ ...objectQuery(id, asOf), enabled: allowed, retry: false })
  const history = useInfiniteQuery({ ...historyQuery(id), enabled: allowed && !asOf && isMissing(live.error), retry: false })
  const versions = history.data?.pages[0]?.items
  const deleted = isMissing(live.error) && versions?.[0]?.deletedAt ? versions[0] : undefined
  const error = deleted ? undefined : live.error && !asOf && isMissing(live.error) && history.isPending ? undefined : live.error
  return { object: isMissing(live.error) ? deleted : live.data, error, retry: () => void live.refetch() }
}

export function ObjectPage() {
  const { objectId = '' } = useParams({ strict: false })
  const [search, change] = useUrlState(parse)
  const read = useScope('graph:read')
  const { object, error, retry } = useObject(objectId, search.asOf, read.allowed)
  const above = (
    <Link to="/graph" search={{ asOf: search.asOf }} className="hover:underline">
      Graph
    </Link>
  )
  const banner = search.asOf && <AsOfBanner asOf={search.asOf} onLeave={() => change({ asOf: '' })} />
  if (!read.allowed || error || !object) {
    return (
      <>
        <PageHeader title="Object" above={above} />
        {banner}
        {!read.allowed ? (
          <EmptyState title="You cannot see the graph.">{read.reason}</EmptyState>
        ) : error && search.asOf && isMissing(error) ? (
          <EmptyState title="The object was not there at that moment." action={<Button onClick={() => change({ asOf: '' })}>Back to now</Button>}>
            It was created later, or was deleted then.
          </EmptyState>
        ) : error ? (
          <ErrorState error={error} what="The object could not be loaded." onRetry={retry} />
        ) : (
          <SkeletonRows rows={8} />
        )}
      </>
    )
  }
  return <Loaded key={object.id} object={object} search={search} change={change} above={above} banner={banner} />
}

type LoadedProps = { object: GraphObject; search: Search; change: ReturnType<typeof useUrlState<Search>>[1]; above: ReactNode; banner: ReactNode }

function Loaded({ object, search, change, above, banner }: LoadedProps) {
  const write = useScope('graph:write')
  const [dialog, setDialog] = useState<'edit' | 'delete' | 'restore'>()
  const isDeleted = Boolean(object.deletedAt)
  const reason = search.asOf ? 'Nothing can be changed in the past.' : isDeleted ? 'The object is deleted. Restore it first.' : write.reason
  const title = titleOf(object)
  useActions(
    useMemo(
      () =>
        reason
          ? []
          : [
              { id: 'object-edit', label: 'Edit this object…', group: 'On this page', run: () => setDialog('edit') },
              { id: 'object-delete', label: 'Delete this object…', group: 'On this page', run: () => setDialog('delete') },
            ],
      [reason],
    ),
  )
  return (
    <>
      <PageHeader
        title={title}
        above={above}
        heading={
          <span className="flex flex-wrap items-center gap-2">
            <span className="min-w-0 break-words">{title}</span>
            <TypeTag type={object.type} />
            {object.status && <Badge tone="run">{object.status}</Badge>}
            {isDeleted && <Badge tone="fail">Deleted</Badge>}
          </span>
        }
        actions={
          <>
            <Link to="/graph" search={{ view: 'explore', from: object.id, asOf: search.asOf }} className={buttonClass()}>
              <Waypoints aria-hidden size={14} />
              Explore
            </Link>
            {isDeleted ? (
              <Button variant="primary" icon={<ArchiveRestore aria-hidden size={14} />} disabledReason={write.reason} onClick={() => setDialog('restore')}>
                Restore…
              </Button>
            ) : (
              <>
                <Button icon={<Trash2 aria-hidden size={14} />} disabledReason={reason} onClick={() => setDialog('delete')}>
                  Delete…
                </Button>
                <Button variant="primary" icon={<Pencil aria-hidden size={14} />} disabledReason={reason} onClick={() => setDialog('edit')}>
                  Edit
                </Button>
              </>
            )}
          </>
        }
      />
      {banner}
      <Tabs
        label="Views of the object"
        value={search.tab ?? 'object'}
        onChange={(tab) => change({ tab: tab === 'history' ? tab : '', v: '', with: '' })}
        tabs={[
          { key: 'object', label: 'Object', panel: <Facts object={object} asOf={search.asOf} title={title} reason={reason} onAsOf={(asOf) => change({ asOf })} /> },
          { key: 'history', label: 'History', count: object.version, panel: <HistoryPanel id={object.id} current={object} chosen={search.v} against={search.with} onChange={change} disabledReason={reason} /> },
        ]}
      />
      {dialog === 'edit' && <EditObjectDialog object={object} onClose={() => setDialog(undefined)} />}
      {dialog === 'delete' && <DeleteDialog object={object} onClose={() => setDialog(undefined)} />}
      {dialog === 'restore' && <RestoreDialog object={object} onClose={() => setDialog(undefined)} />}
    </>
  )
}

function Facts({ object, asOf, title, reason, onAsOf }: { object: GraphObject; asOf: string | undefined; title: string; reason: string | undefined; onAsOf: (next: string | undefined) => void }) {
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
                  <code className="font-mono text-xs break-all">{object.id}</code>
                  <CopyButton text={object.id} label="Copy the id" />
                </span>,
              ],
            ]}
          />
          {object.reason && <p className="mt-3 rounded-md bg-sunken px-3 py-2 text-xs break-words text-text-2">{object.reason}</p>}
          <div className="mt-3 border-t border-line pt-3">
            <AsOfField value={asOf} onChange={onAsOf} />
          </div>
        </Card>
        <SourcesCard sources={object.sources ?? []} />
      </div>
    </div>
  )
}
