import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Play, X } from 'lucide-react'
import { lazy, type ReactNode, Suspense, useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { recentRunsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import { Button, IconButton } from '~/ui/Button'
import { Card } from '~/ui/Card'

const DISMISSED = 'emergent-first-visit-dismissed'
/** Whether it was dismissed in this browser. A browser may refuse to store anything. */
function wasDismissed(): boolean {
  try {
    return localStorage.getItem(DISMISSED) === 'yes'
  } catch {
    return false
  }
}
const DemoDialog = lazy(() => import('./DemoDialog').then((module) => ({ default: module.DemoDialog })))

/** Leads through the first minutes of a project. It goes away with the first run, or when somebody dismisses it. */
export function FirstVisitCard() {
  const reads = useScope('admin:read').allowed
  const admin = useScope('admin:write')
  const invoke = useScope('agents:invoke')
  const [isDismissed, setDismissed] = useState(wasDismissed)
  const [isAsking, setAsking] = useState(false)
  const runs = useQuery({ ...recentRunsQuery({}, 1), enabled: reads && !isDismissed }).data
  const isEmpty = runs?.items.length === 0
  const models = useQuery({ queryKey: [...keys.diagnostics, 'models'], enabled: isEmpty && !isDismissed, queryFn: ({ signal }) => unwrap(api.GET('/api/admin/diagnostics', { params: { query: { probe: false } }, signal })) }).data?.models
  if (isDismissed || !isEmpty) return null
  const dismiss = () => {
    setDismissed(true)
    try {
      localStorage.setItem(DISMISSED, 'yes')
    } catch {
      // It is back after a reload.
    }
  }
  // Others, such as a local server of models, have a setting that is no key.
  const keyed = models?.filter((one) => /KEY|CREDENTIALS/.test(one.setting ?? ''))
  const withKey = keyed?.filter((one) => one.configured).map((one) => one.provider) ?? []
  const settings = keyed?.flatMap((one) => (one.setting?.endsWith('_API_KEY') ? [one.setting] : [])) ?? []
  return (
    <Card title="Start here" action={<IconButton label="Dismiss" size="sm" onClick={dismiss}><X aria-hidden size={16} /></IconButton>}>
      <ol className="grid gap-4 sm:grid-cols-2 xl:grid-cols-4">
        <Step number={1} title="Run the demo workflow">
          <p>A planner makes five tasks, agents discuss a design, a test fails and is repaired. A script plays the model: no key, no cost.</p>
          <p className="mt-2"><Button variant="primary" size="sm" icon={<Play aria-hidden size={12} />} disabledReason={admin.reason ?? invoke.reason} onClick={() => setAsking(true)}>Run the demo…</Button></p>
        </Step>
        <Step number={2} title="Look at what it wrote">
          <p>The demo opens as a live picture of its tasks. What the agents write is in the <To to="/graph">graph</To>, with the run that wrote it.</p>
        </Step>
        <Step number={3} title="Chat about it">
          <p>Ask in the <To to="/chat">chat</To>. Without an agent it answers with passages of the graph and your <To to="/documents">documents</To>.</p>
        </Step>
        <Step number={4} title="Connect a model">
          {withKey.length > 0 ? (
            <p>{withKey.join(', ')} can be used. Create an <To to="/agents">agent</To> with one of its models.</p>
          ) : (
            <p>Start the server with a key, such as {settings.slice(0, 2).map((name, index) => <span key={name}>{index > 0 && ' or '}<code className="font-mono text-xs">{name}</code></span>)}. The <To to="/settings">settings</To> list them all.</p>
          )}
        </Step>
      </ol>
      {isAsking && <Suspense fallback={null}><DemoDialog onClose={() => setAsking(false)} /></Suspense>}
    </Card>
  )
}

const To = ({ to, children }: { to: string; children: ReactNode }) => <Link to={to} className="text-accent-text underline">{children}</Link>

function Step({ number, title, children }: { number: number; title: string; children: ReactNode }) {
  return (
    <li className="flex gap-3">
      <span aria-hidden className="grid size-6 shrink-0 place-items-center rounded-full bg-accent-soft text-xs font-semibold text-accent-text">{number}</span>
      <div className="min-w-0">
        <h3 className="font-medium">{title}</h3>
        <div className="mt-1 text-text-2">{children}</div>
      </div>
    </li>
  )
}
