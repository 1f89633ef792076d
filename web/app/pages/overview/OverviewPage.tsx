import { PageHeader } from '~/ui/PageHeader'
import { FailuresCard, RunningCard } from './RunCards'
import { FirstVisitCard } from './FirstVisitCard'
import { NeedsYouCard } from './NeedsYouCard'
import { SpendCard } from './SpendCard'
import { SummaryTiles } from './SummaryTiles'
import { ThroughputCard } from './ThroughputCard'

export function OverviewPage() {
  return (
    <>
      <PageHeader title="Overview" description="What needs you, what runs, what failed and why, and what it costs." />
      <div className="space-y-4">
        <FirstVisitCard />
        <SummaryTiles />
        <div className="grid items-start gap-4 xl:grid-cols-[3fr_2fr]">
          <div className="grid gap-4">
            <NeedsYouCard />
            <RunningCard />
            <FailuresCard />
          </div>
          <div className="grid gap-4">
            <ThroughputCard />
            <SpendCard />
          </div>
        </div>
      </div>
    </>
  )
}
