import { useQuery } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { api, unwrap, unwrapAll } from '~/api/client'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { Button } from '~/ui/Button'
import { CopyButton } from '~/ui/CopyButton'
import { Dialog } from '~/ui/Dialog'
import { ErrorState } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { SkeletonRows } from '~/ui/Skeleton'
import { toast } from '~/ui/toast'
import { download } from '~/util/download'
import { nodesOf, type RunDetail } from './run-queries'
import { scriptOf, shellQuoted } from './run-script'

/** The scripts of the program come before files of the same name. */
const isTaken = (name: string) => ['echo', 'walkthrough'].includes(name) || name.startsWith('emergent.')

function problemOf(name: string): string | undefined {
  if (!/^[A-Za-z0-9_-][\w.-]*$/.test(name)) return 'The name of a script has letters, digits, - and _ only.'
  return isTaken(name) ? 'The program has a script of this name, which would be played instead.' : undefined
}

/** What the model wrote, of the calls of a run whose input a person changed. */
async function originalInputs(runId: string, signal: AbortSignal): Promise<Map<string, unknown>> {
  const { items } = await unwrapAll((cursor) => api.GET('/api/approvals', { params: { query: { runId, status: 'decided', kind: 'approval', limit: 100, cursor } }, signal }))
  const details = await Promise.all(items.map(({ id }) => unwrap(api.GET('/api/approvals/{approvalId}', { params: { path: { approvalId: id } }, signal }))))
  return new Map(details.flatMap((one) => ('toolCallId' in one && one.decision?.editedInput ? [[one.toolCallId, one.input] as const] : [])))
}

async function readRun({ id, agentName }: { id: string; agentName: string }, decides: boolean, signal: AbortSignal) {
  const path = { agentId: agentName, runId: id }
  const messages = await unwrapAll((cursor) => api.GET('/api/admin/agents/{agentId}/runs/{runId}/messages', { params: { path, query: { limit: 100, cursor } }, signal }))
  const calls = await unwrapAll((cursor) => api.GET('/api/admin/agents/{agentId}/runs/{runId}/tool-calls', { params: { path, query: { limit: 100, cursor } }, signal }))
  return { agentName, messages, calls, originals: decides ? await originalInputs(id, signal) : new Map<string, unknown>() }
}

function useScript(run: RunDetail) {
  const decides = useScope('approvals:decide').allowed
  return useQuery({
    queryKey: [...keys.run(run.id), 'script', decides],
    staleTime: 0,
    queryFn: async ({ signal }) => {
      const chain = await Promise.all([...run.resumeChain, run.id].filter((id, index, all) => all.indexOf(id) === index).map((runId) => unwrap(api.GET('/api/admin/runs/{runId}', { params: { path: { runId } }, signal }))))
      const trees = await Promise.all(chain.map(({ id, agentId }) => unwrap(api.GET('/api/admin/agents/{agentId}/runs/{runId}/tree', { params: { path: { agentId, runId: id } }, signal }))))
      const below = trees.flatMap((tree) => tree.children.flatMap(nodesOf))
      const [read, started] = await Promise.all([chain, below].map((runs) => Promise.all(runs.map((one) => readRun(one, decides, signal)))))
      const all = [...read!, ...started!]
      const script = scriptOf({
        agentName: run.agentName,
        runId: run.id,
        createdAt: chain[0]?.createdAt ?? run.createdAt,
        runs: read!.map((one) => one.messages.items),
        calls: read!.flatMap((one) => one.calls.items),
        below: started!.map((one) => ({ agentName: one.agentName, messages: one.messages.items, calls: one.calls.items })),
        originalInputs: new Map(all.flatMap((one) => [...one.originals])),
      })
      const isCut = all.some((one) => one.messages.cursor || one.calls.cursor) || trees.flatMap(nodesOf).some((node) => node.truncated)
      return { ...script, notes: [...(isCut ? ['The record is too long: only the first 2,000 messages of each run, and only a part of the runs that it started, are in the script.'] : []), ...script.notes] }
    },
  })
}

const Code = ({ text, label, className = '' }: { text: string; label: string; className?: string }) => (
  <div className="relative">
    {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
    <pre role="region" aria-label={label} tabIndex={0} className={`overflow-auto rounded-md border border-line bg-sunken p-3 pr-11 font-mono text-xs leading-5 ${className}`}>
      {text}
    </pre>
    <span className="absolute top-1.5 right-1.5 rounded-md bg-sunken">
      <CopyButton text={text} label={`Copy ${label.toLowerCase()}`} />
    </span>
  </div>
)

/** Offers the answers of a run as a script that plays them again. */
export function SaveTestDialog({ run, onClose }: { run: RunDetail; onClose: () => void }) {
  const { data, error, refetch } = useScript(run)
  const [name, setName] = useState(() => (problemOf(run.agentName) ? `${run.agentName.replaceAll(/[^\w.-]/g, '-')}-test` : run.agentName))
  const problem = problemOf(name)
  const limit = run.reason === 'step_limit' && run.maxSteps ? ` --max-steps ${run.maxSteps}` : ''
  const command = data && `emergent agent trigger ${run.agentName} --input ${shellQuoted(data.input)} --model rehearsal/${name}${limit} --follow`
  const nothing = data?.answers === 0 ? 'The model gave no answer in this run.' : undefined
  return (
    <Dialog
      open
      isSaved
      onClose={onClose}
      onSubmit={() => {
        download(new Blob([data!.yaml], { type: 'application/yaml' }), `${name}.yaml`)
        toast(`${name}.yaml was saved.`, { description: 'Put it into the folder rehearsals of the server’s data folder.' })
      }}
      size="lg"
      title="Save as a test"
      description="A rehearsal script gives the answers of this run, and of the runs that it started, again in their order: without a model, without cost, the same each time."
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button
            variant="primary"
            icon={<Download aria-hidden size={14} />}
            disabledReason={data ? (nothing ?? problem) : 'The record is not read yet.'}
            type="submit"
          >
            Download {name}.yaml
          </Button>
        </>
      }
    >
      {error ? (
        <ErrorState error={error} what="The record of the run could not be read." onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonRows rows={6} />
      ) : nothing ? (
        <p>{nothing} There is nothing to play again.</p>
      ) : (
        <div className="space-y-4">
          <Field label="Name of the script" problem={problem} className="max-w-sm">
            {(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} />}
          </Field>
          {data.notes.length > 0 && (
            <div className="rounded-md bg-warn-soft px-3 py-2.5">
              <h3 className="font-medium text-warn">What a script does not repeat</h3>
              <ul className="mt-1 list-disc space-y-1 pl-5">
                {data.notes.map((note) => (
                  <li key={note} className="wrap-anywhere">{note}</li>
                ))}
              </ul>
            </div>
          )}
          <Step title={`${data.answers} ${data.answers === 1 ? 'answer' : 'answers'} and ${data.calls} tool ${data.calls === 1 ? 'call' : 'calls'}`}>
            <Code text={data.yaml} label="The script" className="max-h-48" />
          </Step>
          <Step title={<>Put <code className="font-mono text-xs">{name}.yaml</code> into the folder <code className="font-mono text-xs">data/rehearsals</code> of the server (<code className="font-mono text-xs">rehearsals</code> in its data folder), then run it with</>}>
            <Code text={command ?? ''} label="The command" className="max-h-40 whitespace-pre-wrap wrap-anywhere" />
          </Step>
        </div>
      )}
    </Dialog>
  )
}

const Step = ({ title, children }: { title: ReactNode; children: ReactNode }) => (
  <section>
    <h3 className="mb-1.5 text-text-2">{title}</h3>
    {children}
  </section>
)
