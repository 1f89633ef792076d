import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { JsonField } from '~/ui/JsonField'
import { toast } from '~/ui/toast'
import { parseJson } from '~/util/json'
import { PlanView } from './PlanView'

type Manifest = Record<string, never>
type Plan = Schemas['ProductPlan']

const isDone = ({ direction, steps, consent }: Plan) => direction === 'same' && steps.every(({ change }) => change === 'keep') && !consent

/** What the plan does, as the button says it. A source may have an older version than the project. */
function labelOf({ direction, name, to, consent }: Plan): string {
  const act = direction === 'install' ? `Install ${name}` : direction === 'same' ? `Install ${to} again` : `${direction === 'downgrade' ? 'Downgrade' : 'Upgrade'} to ${to}`
  return consent ? `Accept and ${act.charAt(0).toLowerCase()}${act.slice(1)}` : act
}

/** Installs a product, or upgrades the one that is named: first the plan, then the consent to exactly that plan. */
export function ProductDialog({ upgrade, disabledReason, onClose }: { upgrade?: string; disabledReason?: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const [source, setSource] = useState(upgrade ? '' : 'emergent.research')
  const [manifest, setManifest] = useState<unknown>()
  const [isBroken, setBroken] = useState(false)
  const [upload, setUpload] = useState(0)
  const send = (more: { dryRun: boolean; accept?: string }) => {
    const body = { ...(manifest ? { manifest: manifest as Manifest } : source.trim() ? { source: source.trim() } : {}), ...more }
    return upgrade ? unwrap(api.POST('/api/products/{name}/upgrade', { params: { path: { name: upgrade } }, body })) : unwrap(api.POST('/api/products/install', { body }))
  }
  const plan = useMutationOnce({ mutationFn: () => send({ dryRun: true }) })
  const apply = useMutationOnce({
    mutationFn: () => send({ dryRun: false, ...(plan.data?.plan.consent ? { accept: plan.data.plan.consent.digest } : {}) }),
    onSuccess: ({ plan: done }) => {
      toast(`${done.name} ${done.to ?? ''} is installed.`)
      void client.invalidateQueries()
      onClose()
    },
  })
  const changed = () => {
    plan.reset()
    apply.reset()
  }
  const read = async (file: File | undefined) => {
    if (!file) return
    changed()
    try {
      setManifest(parseJson(await file.text()))
      setBroken(false)
    } catch {
      toast('The file is not JSON.', { kind: 'failed' })
    }
    setUpload((count) => count + 1)
  }
  const nothing = disabledReason ?? (!upgrade && !manifest && !source.trim() ? 'Name a source or paste a manifest.' : isBroken ? 'Correct the JSON first.' : undefined)
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => (plan.data ? apply.mutate() : plan.mutate())}
      size="lg"
      title={upgrade ? `Upgrade ${upgrade}` : 'Install a product'}
      description="You see what will be done and used before anything happens."
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          {plan.data && <Button onClick={changed}>Back</Button>}
          {plan.data ? (
            <Button key="apply" variant="primary" type="submit" busy={apply.isPending} disabledReason={isDone(plan.data.plan) ? 'The project has all of it already.' : undefined}>{labelOf(plan.data.plan)}</Button>
          ) : (
            <Button key="plan" variant="primary" busy={plan.isPending} type="submit" disabledReason={nothing}>Show the plan</Button>
          )}
        </>
      }
    >
      {plan.data ? (
        <PlanView plan={plan.data.plan} />
      ) : (
        <div className="grid gap-4">
          <Field label="Source" hint={upgrade ? 'Empty: where it was installed from.' : 'emergent.memory, emergent.research and emergent.code come with the server. Or an https address, or github.com/owner/name.'}>
            {(ids) => <Input {...ids} value={source} onChange={(event) => setSource(event.target.value)} />}
          </Field>
          <JsonField key={upload} label="Or a manifest" hint="Takes the place of the source." rows={8} value={manifest} onChange={setManifest} onBroken={setBroken} />
          <label className="text-xs text-text-2">Or upload one <input type="file" accept="application/json,.json" className="ml-2" onChange={(event) => void read(event.target.files?.[0])} /></label>
        </div>
      )}
      <InlineError error={plan.error ?? apply.error} />
    </Dialog>
  )
}
