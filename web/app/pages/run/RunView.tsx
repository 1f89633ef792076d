import { useQuery } from '@tanstack/react-query'
import { useCallback, useRef } from 'react'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { Card } from '~/ui/Card'
import { Tabs } from '~/ui/Tabs'
import { LimitsCard } from './LimitsCard'
import { ResultCard } from './ResultCard'
import { RunHeader } from './RunHeader'
import { type RunDetail, treeQuery } from './run-queries'
import { RunTreeCard } from './RunTreeCard'
import { StepsTable } from './StepsTable'
import { Timeline } from './Timeline'
import { Transcript, type TranscriptHandle } from './Transcript'
import { useRunRecord } from './use-run-record'
import { WarningsCard } from './WarningsCard'
import { Writes } from './Writes'

const TABS = ['transcript', 'writes', 'steps'] as const
const SHOWN = ['answers', 'calls', 'errors'] as const
const parse = (raw: RawSearch) => ({ tab: oneOf(TABS, raw.tab) ?? 'transcript', item: raw.item, show: oneOf(SHOWN, raw.show) })

export function RunView({ run }: { run: RunDetail }) {
  const [{ tab, item, show }, change] = useUrlState(parse)
  const { record, version, state } = useRunRecord(run)
  const tree = useQuery(treeQuery(run))
  const transcript = useRef<TranscriptHandle>(null)
  const select = useCallback(
    (id: string) => {
      change({ item: id, tab: '', show: '' })
      // The transcript may be mounted by this change.
      requestAnimationFrame(() => transcript.current?.reveal(id))
    },
    [change],
  )
  return (
    <>
      <RunHeader run={run} isLive={state === 'live' && !record.ended} isLost={state === 'reconnecting'} />
      <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-[minmax(0,1fr)_19rem] xl:grid-rows-[auto_1fr]">
        <div className="grid min-w-0 grid-cols-1 gap-4">
          <ResultCard run={run} />
          <Card title="Timeline">
            <Timeline run={run} record={record} version={version} selected={item} onSelect={select} />
          </Card>
        </div>
        <div className="grid min-w-0 grid-cols-1 gap-4 xl:sticky xl:top-16 xl:col-start-2 xl:row-span-2 xl:row-start-1">
          <WarningsCard run={run} record={record} />
          <RunTreeCard run={run} tree={tree} />
          <LimitsCard run={run} tree={tree.data} record={record} />
        </div>
        <div className="min-w-0">
          <Tabs
            label="Parts of the run"
            value={tab}
            onChange={(next) => change({ tab: next === 'transcript' ? '' : next })}
            tabs={[
              { key: 'transcript', label: 'Transcript', panel: <Transcript ref={transcript} run={run} record={record} version={version} selected={item} show={show} onShow={(next) => change({ show: next })} /> },
              { key: 'writes', label: 'Changes to the graph', panel: <Writes run={run} record={record} version={version} /> },
              { key: 'steps', label: 'Tokens and cost', panel: <StepsTable run={run} record={record} version={version} onSelect={select} /> },
            ]}
          />
        </div>
      </div>
    </>
  )
}
