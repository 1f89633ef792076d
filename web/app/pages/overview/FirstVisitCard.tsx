import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Check, Play, X } from 'lucide-react'
import { Fragment, type ReactNode, useEffect } from 'react'
import { api, unwrapPage } from '~/api/client'
import { keys } from '~/api/keys'
import { diagnosticsQuery, recentRunsQuery, workflowsQuery } from '~/api/queries'
import { useScope, useSession } from '~/api/session'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUrlDialog } from '~/hooks/use-url-state'
import { Button, IconButton } from '~/ui/Button'
import { Card } from '~/ui/Card'
import { Skeleton } from '~/ui/Skeleton'
import { lazyPart } from '~/util/lazy-part'
import { toast } from '~/ui/toast'
import { classes } from '~/util/classes'
import { noteFirstSteps, useFirstSteps } from '~/util/first-steps'
import { connectedProviders } from '~/util/providers'
import { GOAL } from './demo'

const DIALOGS = ['demo'] as const
const loadDemo = () => import('./DemoDialog')
const DemoDialog = lazyPart(() => loadDemo().then((module) => module.DemoDialog))

/**
 * How far the first steps are; a step that is not known yet is undefined. The guide begins in a project without runs, or
 * with none but those of the demo. From then on it stays in this browser until all is done, or somebody dismisses it.
 */
function useProgress() {
  const reads = useScope('admin:read').allowed
  const readsWorkflows = useScope('agents:read').allowed
  const chats = useScope('chat:use').allowed
  // Only a token of the whole server sees its settings.
  const isOfServer = useSession()?.project == null
  const { begun, looked, closed } = useFirstSteps()
  const isOpen = !closed && reads && readsWorkflows
  const runs = useQuery({ ...recentRunsQuery({}, 1), enabled: isOpen }).data?.items
  const workflows = useQuery({ ...workflowsQuery(undefined, 2), enabled: isOpen }).data?.items
  const isNew = runs !== undefined && workflows !== undefined && (runs.length === 0 || (workflows.length > 0 && workflows.every((one) => one.description === GOAL)))
  const isShown = isOpen && workflows !== undefined && (begun === true || isNew)
  const conversations = useQuery({ queryKey: [...keys.conversations, 'any'], enabled: isShown && chats, queryFn: ({ signal }) => unwrapPage(api.GET('/api/chat/conversations', { params: { query: { limit: 1 } }, signal })) }).data?.items
  const server = useQuery({ ...diagnosticsQuery, enabled: isShown && isOfServer })
  const played = workflows && workflows.length > 0
  const connected = server.data && (Boolean(server.data.model) || connectedProviders(server.data).length > 0)
  const chatted = conversations && conversations.length > 0
  const isUnknown = !isOfServer || server.isError
  const isDone = isShown && played && looked && (connected || isUnknown) && (chatted || !chats)
  useEffect(() => {
    if (isDone) noteFirstSteps({ closed: true })
    // Whoever opened the graph before the demo has not seen what it writes.
    else if (isShown) noteFirstSteps({ begun: true, ...(played ? {} : { looked: false }) })
  }, [isShown, isDone, played])
  return { isShown: isShown && !isDone, played, looked: played && looked, connected, chatted, isUnknown, server: server.data, workflow: (workflows?.find((one) => one.description === GOAL) ?? workflows?.[0])?.id }
}

/** Leads through the first minutes of a project, and says which of its steps are done. */
export function FirstVisitCard() {
  const admin = useScope('admin:write')
  const invoke = useScope('agents:invoke')
  const chat = useScope('chat:use')
  const write = useScope('agents:write')
  const demoReason = admin.reason ?? invoke.reason
  const navigate = useNavigate()
  const { dialog, open, close } = useUrlDialog(DIALOGS)
  const client = useQueryClient()
  const openChat = useMutationOnce({
    mutationFn: async () => (await loadDemo()).createGuide(),
    onSuccess: (agent) => {
      void client.invalidateQueries({ queryKey: keys.agents })
      void navigate({ to: '/chat', search: { agent } })
    },
    onError: ({ message }) => toast('The agent could not be created.', { kind: 'failed', description: message }),
  })
  const { isShown, played, looked, connected, chatted, isUnknown, server, workflow } = useProgress()
  if (!isShown) return null
  return (
    <Card title="Start here" action={<IconButton label="Dismiss" size="sm" onClick={() => noteFirstSteps({ closed: true })}><X aria-hidden size={16} /></IconButton>}>
      <ol className="grid gap-4 sm:grid-cols-2 xl:grid-cols-4">
        <Step number={1} title="Run the demo workflow" isDone={played}>
          <p>A planner makes five tasks, agents discuss a design, a test fails and is repaired. A script plays the model: no key, no cost.</p>
          {played && workflow ? (
            <p className="mt-2"><Link to="/workflows/$workflowId" params={{ workflowId: workflow }} className="text-accent-text underline">Show how it went</Link></p>
          ) : (
            <p className="mt-2"><Button variant="primary" size="sm" icon={<Play aria-hidden size={12} />} disabledReason={demoReason} onClick={() => open('demo')}>Run the demo…</Button></p>
          )}
        </Step>
        <Step number={2} title="Look at what it wrote" isDone={looked}>
          <p>The demo opens as a live picture of its tasks. What the agents write is in the <To to="/graph">graph</To>, with the run that wrote it.</p>
        </Step>
        <Step number={3} title="Connect a model" isDone={connected}>
          {server ? <ConnectText server={server} /> : isUnknown ? <p>Ask whoever runs the server which models it can use.</p> : <Skeleton className="h-16 w-full" />}
        </Step>
        <Step number={4} title="Chat about it" isDone={chatted}>
          {connected === false ? (
            <>
              <p>Agents answer with a model, and this server has a key for none: <To to="/settings">connect one</To>. Until then, a script can search the graph for your words.</p>
              <p className="mt-2"><Button size="sm" busy={openChat.isPending} disabledReason={chat.reason ?? write.reason} onClick={() => openChat.mutate()}>Chat with a script</Button></p>
            </>
          ) : (
            <p>Ask an agent in the <To to="/chat">chat</To> about the graph and your <To to="/documents">documents</To>.{server && !server.model && <> The search without an agent needs <Code>EMERGENT_MODEL</Code>.</>}</p>
          )}
        </Step>
      </ol>
      {dialog && <DemoDialog disabledReason={demoReason} onClose={close} />}
    </Card>
  )
}

function ConnectText({ server }: { server: Parameters<typeof connectedProviders>[0] }) {
  if (server.model) return <p>Every agent uses {server.model}, the model of the server.</p>
  const connected = connectedProviders(server)
  if (connected.length > 0) return <p>{connected.join(', ')} can be used. Create an <To to="/agents">agent</To> with one of its models, or start the server with <Code>EMERGENT_MODEL=provider/name</Code> for all agents.</p>
  const names = server.models.flatMap((one) => (one.setting?.endsWith('_API_KEY') ? [one.setting] : [])).slice(0, 2)
  return (
    <p>
      Start the server with a key{names.map((name, index) => <span key={name}>{index > 0 ? ' or ' : ', such as '}<Code>{name}</Code></span>)}, and with <Code>EMERGENT_MODEL=provider/name</Code> for all agents. The <To to="/settings">settings</To> list them all.
    </p>
  )
}

const To = ({ to, children }: { to: string; children: ReactNode }) => <Link to={to} className="text-accent-text underline">{children}</Link>
/** A name or setting, which is broken after `=` if at all. */
const Code = ({ children }: { children: string }) => <code className="font-mono text-xs wrap-anywhere">{children.split('=').map((part, index) => <Fragment key={part}>{index > 0 && <>=<wbr /></>}{part}</Fragment>)}</code>

function Step({ number, title, isDone, children }: { number: number; title: string; isDone: boolean | undefined; children: ReactNode }) {
  return (
    <li className="flex gap-3">
      <span aria-hidden className={classes('grid size-6 shrink-0 place-items-center rounded-full text-xs font-semibold', isDone ? 'bg-ok-soft text-ok' : 'bg-accent-soft text-accent-text')}>{isDone ? <Check size={14} /> : number}</span>
      <div className="min-w-0">
        <h3 className="font-medium">{title}{isDone && <span className="font-normal text-ok"> · done</span>}</h3>
        <div className="mt-1 text-text-2">{children}</div>
      </div>
    </li>
  )
}
