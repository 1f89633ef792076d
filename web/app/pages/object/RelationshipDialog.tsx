// One relationship: what it says, who wrote each version in which run and call, and its deletion.
import { type UseMutationResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { api, unwrap, unwrapPage } from '~/api/client'
import { objectQuery, type Relationship } from '~/api/graph'
import { keys } from '~/api/keys'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { Diff } from '~/ui/Diff'
import { InlineError } from '~/ui/ErrorState'
import { JsonField } from '~/ui/JsonField'
import { ListEnd } from '~/ui/ListEnd'
import { Loaded } from '~/ui/Loaded'
import { toast } from '~/ui/toast'
import { RelativeTime } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { shortId, words } from '~/util/format'
import { titleOf } from '~/util/objects'
import { jsonText } from '~/util/json'
import { AuthorLine } from './AuthorLine'
import { propertyChanges } from './object-draft'

type Props = { id: string; /** The object whose page it is opened on. */ object: { id: string; title: string }; /** Why it cannot be changed, and why it cannot be restored. */ disabledReason: string | undefined; restoreReason: string | undefined; onClose: () => void }
type Change = UseMutationResult<Relationship, Error, () => Promise<Relationship>>

const contentOf = ({ properties, weight, deletedAt }: Relationship) => ({ ...(deletedAt && { deleted: true }), properties, ...(weight != null && { weight }) })

export function RelationshipDialog({ id, object, disabledReason, restoreReason, onClose }: Props) {
  const history = useQuery({
    queryKey: [...keys.objects, 'edge', id],
    // What an earlier dialog read is forgotten: only the newest version can be changed.
    gcTime: 0,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/graph/relationships/{id}/history', { params: { path: { id }, query: { limit: 100 } }, signal })),
  })
  const client = useQueryClient()
  const box = useRef<HTMLDivElement>(null)
  const [isSaved, setIsSaved] = useState(true)
  // What was saved here last. It is there before the history is read again.
  const [saved, setSaved] = useState<Relationship>()
  const listed = history.data?.items[0]
  const newest = saved && !(listed && listed.version > saved.version) ? saved : listed
  const change: Change = useMutationOnce({
    mutationFn: (make) => make(),
    onSuccess: (edge) => {
      toast(edge.deletedAt ? 'The relationship was deleted.' : `The relationship is now version ${edge.version}.`)
      // The button that was pressed goes away, and the focus must not. Whoever writes on keeps it.
      if (document.activeElement?.tagName !== 'TEXTAREA') box.current?.focus()
      setSaved(edge)
      void client.invalidateQueries({ queryKey: keys.objects })
    },
  })
  const otherId = newest?.fromId === object.id ? newest.toId : newest?.fromId
  const other = useQuery({ ...objectQuery(otherId ?? ''), enabled: otherId !== undefined }).data
  const nameOf = (end: string) => (end === object.id ? object.title : other ? titleOf(other) : shortId(end))
  return (
    <Dialog open onClose={onClose} isSaved={isSaved} size="lg" title={newest ? `${nameOf(newest.fromId)} ${words(newest.type)} ${nameOf(newest.toId)}` : 'Relationship'}>
      <Loaded query={history} what="The relationship could not be loaded.">
        {(page) => (
          <div ref={box} tabIndex={-1} className="space-y-5 pb-3 outline-none">
            {newest?.deletedAt ? (
              <Button variant="primary" busy={change.isPending} disabledReason={restoreReason} onClick={() => change.mutate(() => unwrap(api.POST('/api/graph/relationships/{id}/restore', { params: { path: { id } } })))}>Restore the relationship</Button>
            ) : (
              newest && <Edit edge={newest} change={change} onSame={setIsSaved} disabledReason={disabledReason} />
            )}
            <InlineError error={change.error} />
            <ol aria-label="History" className="divide-y divide-line rounded-md border border-line">
              {page.items.map((row, index) => {
                const before = page.items[index + 1]
                return (
                  <li key={row.version} className="px-3 py-2">
                    <p className="mb-1 flex flex-wrap gap-x-3">
                      <span className="font-medium">Version {row.version}{row.deletedAt && ', deleted'}</span>
                      <AuthorLine author={row.author} />
                      <RelativeTime at={row.deletedAt ?? row.updatedAt} className="ml-auto text-xs text-text-2" />
                    </p>
                    {row.reason && <p className="mb-1 text-xs break-words text-text-2"><WithCode text={row.reason} /></p>}
                    {/* What came before the oldest version of the page is not known. */}
                    {(before || row.version === 1) && <Diff before={before ? contentOf(before) : ''} after={contentOf(row)} label={`Changes of version ${row.version}`} />}
                  </li>
                )
              })}
            </ol>
            <ListEnd page={page} />
          </div>
        )}
      </Loaded>
    </Dialog>
  )
}

type Content = { properties: Relationship['properties']; weight?: number | null }

function Edit({ edge, change, onSame, disabledReason }: { edge: Relationship; change: Change; onSame: (isSame: boolean) => void; disabledReason: string | undefined }) {
  // What was saved here is edited next. A version of somebody else does not replace what is typed.
  const [base, setBase] = useState(edge)
  const [content, setContent] = useState<Content>(() => contentOf(base))
  const [isBroken, setBroken] = useState(false)
  const [asks, setAsks] = useState<boolean>()
  // Whether something was typed since it was saved: it stays when the answer comes.
  const isTyped = useRef(false)
  const [resets, setResets] = useState(0)
  const path = { id: base.id }
  const expectedVersion = base.version
  const { properties } = Object(content) as Partial<Content>
  const isWhole = typeof properties === 'object' && properties !== null && !Array.isArray(properties)
  const isSame = !isBroken && jsonText(content) === jsonText(contentOf(base))
  useEffect(() => {
    onSame(isSame)
    return () => onSame(true)
  }, [isSame, onSame])
  const saveReason = disabledReason ?? (isBroken ? 'Correct the JSON first.' : !isWhole ? 'Write { "properties": { … } }.' : isSame ? 'Nothing was changed yet.' : undefined)
  // What else was written is sent as well, so that the server names it.
  const save = () => unwrap(api.PATCH('/api/graph/relationships/{id}', { params: { path }, body: { ...content, properties: propertyChanges(base.properties, content.properties), weight: content.weight ?? null, expectedVersion } }))
  const onSaved = (next: Relationship) => {
    setBase(next)
    if (isTyped.current) return
    setContent(contentOf(next))
    setResets(resets + 1)
  }
  const submit = () => {
    isTyped.current = false
    change.mutate(save, { onSuccess: onSaved })
  }
  const remove = () => unwrap(api.DELETE('/api/graph/relationships/{id}', { params: { path, query: { expectedVersion } } }))
  return (
    <div className="space-y-3">
      <JsonField
        key={resets}
        label="Properties and weight"
        value={content}
        onBroken={(next) => {
          isTyped.current = true
          setBroken(next)
        }}
        onChange={(value) => setContent(value as Content)}
      />
      <div className="flex flex-wrap items-center gap-2">
        <Button variant="primary" busy={change.isPending} disabledReason={saveReason} onClick={submit}>Save</Button>
        {asks ? (
          // A second click at the same place keeps it.
          <>
            <Button autoFocus onClick={() => setAsks(false)}>Keep</Button>
            <Button variant="danger" busy={change.isPending} onClick={() => change.mutate(remove)}>Delete the relationship</Button>
            <span className="text-text-2">Both objects stay, and it can be restored here.</span>
          </>
        ) : (
          <Button autoFocus={asks === false} disabledReason={disabledReason} onClick={() => setAsks(true)}>Delete…</Button>
        )}
      </div>
    </div>
  )
}
