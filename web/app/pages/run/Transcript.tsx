import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown } from 'lucide-react'
import { type Ref, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Button } from '~/ui/Button'
import { EmptyState } from '~/ui/EmptyState'
import { Select } from '~/ui/Field'
import { SkeletonRows } from '~/ui/Skeleton'
import { formatCount } from '~/util/format'
import { isOver, type RunDetail } from './run-queries'
import { hasFailed, type RecordItem, type RunRecord } from './run-record'
import { LiveItem, TranscriptItem } from './TranscriptItem'

export type Shown = 'answers' | 'calls' | 'errors'
export type TranscriptHandle = { reveal: (id: string) => void }

const OPTIONS = [
  { value: '', label: 'Everything' },
  { value: 'answers', label: 'Messages only' },
  { value: 'calls', label: 'Tool calls only' },
  { value: 'errors', label: 'Failed calls only' },
]

function isShown(item: RecordItem, show: Shown | undefined): boolean {
  if (item.kind === 'message' && item.text === '' && !item.thoughts && item.calls === 0) return false
  if (show === 'answers') return item.kind === 'message'
  if (show === 'calls') return item.kind === 'call'
  if (show === 'errors') return item.kind === 'call' && hasFailed(item)
  return true
}

type Props = { ref?: Ref<TranscriptHandle>; run: RunDetail; record: RunRecord; version: number; selected: string | undefined; show: Shown | undefined; onShow: (show: string | undefined) => void }

/** Everything that was said and done, in order. Only what is on the screen is in the document. */
export function Transcript({ ref, run, record, version, selected, show, onShow }: Props) {
  const list = useRef<HTMLDivElement>(null)
  const [margin, setMargin] = useState(0)
  // The record is changed in place; its version says when.
  // oxlint-disable-next-line react/exhaustive-deps
  const items = useMemo(() => record.items.filter((item) => isShown(item, show)), [record, version, show])
  const live = !show || show === 'answers' ? record.live : undefined
  const virtualizer = useWindowVirtualizer({
    count: items.length,
    estimateSize: (index) => (items[index]?.kind === 'message' ? 96 : 38),
    overscan: 8,
    scrollMargin: margin,
    getItemKey: (index) => items[index]?.id ?? index,
  })
  useLayoutEffect(() => {
    const measure = () => setMargin(Math.round((list.current?.getBoundingClientRect().top ?? 0) + window.scrollY))
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(document.body)
    return () => observer.disconnect()
  }, [])

  const reveal = useCallback(
    (id: string) => {
      const index = items.findIndex((item) => item.id === id)
      if (index >= 0) virtualizer.scrollToIndex(index, { align: 'center' })
    },
    [items, virtualizer],
  )
  useImperativeHandle(ref, () => ({ reveal }), [reveal])

  // A link to an item leads to it once it has arrived.
  const revealed = useRef(false)
  useEffect(() => {
    if (revealed.current || !selected || !items.some((item) => item.id === selected)) return
    revealed.current = true
    reveal(selected)
  }, [items, reveal, selected])

  if (items.length === 0 && !live) {
    if (!record.ended && record.events === 0) return <SkeletonRows rows={6} />
    return (
      <>
        <Bar count={0} record={record} show={show} onShow={onShow} />
        <EmptyState title={show ? 'Nothing of this kind happened.' : 'Nothing is recorded yet.'}>{show ? 'Show everything to see the rest.' : 'What the agent says and does appears here as it happens.'}</EmptyState>
      </>
    )
  }
  return (
    <>
      <Bar count={items.length} record={record} show={show} onShow={onShow}>
        {items.length > 20 && (
          <Button size="sm" icon={<ArrowDown aria-hidden size={14} />} onClick={() => virtualizer.scrollToIndex(items.length - 1, { align: 'end' })}>
            To the end
          </Button>
        )}
      </Bar>
      <div ref={list} role="log" aria-label="Transcript" aria-live="off" className="rounded-lg border border-line bg-surface shadow-card">
        <div className="relative" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((entry) => {
            const item = items[entry.index]
            if (!item) return null
            return (
              <div key={entry.key} ref={virtualizer.measureElement} data-index={entry.index} className="absolute inset-x-0 top-0" style={{ transform: `translateY(${entry.start - margin}px)` }}>
                <TranscriptItem item={item} run={run} isSelected={item.id === selected} version={item.kind === 'call' ? (item.unfinished ?? item.status) : ''} />
              </div>
            )
          })}
        </div>
        {live && <LiveItem live={live} agent={run.agentName} />}
        {!live && !record.ended && !isOver(run.status) && run.status === 'running' && <p className="animate-breathe px-4 py-2.5 text-xs text-text-2">{record.modelSince === undefined ? 'A tool is at work…' : 'The model is thinking…'}</p>}
      </div>
    </>
  )
}

function Bar({ count, record, show, onShow, children }: { count: number; record: RunRecord; show: Shown | undefined; onShow: (show: string | undefined) => void; children?: React.ReactNode }) {
  return (
    <div className="mb-2 flex items-center gap-2">
      <Select aria-label="What is shown" value={show ?? ''} options={OPTIONS} onChange={(event) => onShow(event.target.value || undefined)} className="h-7! w-auto! text-xs!" />
      <span title={`From ${formatCount(record.events)} events of the run`} className="text-xs text-text-2">
        {formatCount(count)} {show && `of ${formatCount(record.items.filter((item) => isShown(item, undefined)).length)} `}
        {count === 1 && !show ? 'entry' : 'entries'}
      </span>
      <span className="ml-auto">{children}</span>
    </div>
  )
}
