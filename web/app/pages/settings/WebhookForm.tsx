import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { secretsQuery } from '~/api/queries'
import { useScope } from '~/api/session'
import type { Project, Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { useUnsaved } from '~/hooks/use-unsaved'
import { Button } from '~/ui/Button'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Select } from '~/ui/Field'
import { submits } from '~/ui/submits'
import { toast } from '~/ui/toast'

const NONE: Schemas['Webhook'] = { url: '', secret: '' }

/** The address that is told of new and decided items of the inbox. */
export function WebhookForm({ project }: { project: Project }) {
  const client = useQueryClient()
  const write = useScope('admin:write')
  const [saved, setSaved] = useState<Schemas['Webhook']>(project.webhook ?? NONE)
  const [url, setUrl] = useState(saved.url)
  const [secret, setSecret] = useState(saved.secret)
  useUnsaved('page', url !== saved.url || secret !== saved.secret)
  const secrets = useQuery(secretsQuery).data ?? []
  const save = useMutationOnce({
    mutationFn: (webhook: Schemas['Webhook'] | null) => unwrap(api.PATCH('/api/projects/{id}', { params: { path: { id: project.id } }, body: { webhook } })),
    onSuccess: (_project, webhook) => {
      setSaved(webhook ?? NONE)
      if (!webhook) {
        setUrl('')
        setSecret('')
      }
      toast(webhook ? 'The webhook was saved.' : 'The webhook was removed.')
      void client.invalidateQueries({ queryKey: keys.projects })
    },
  })
  const names = [...new Set([...(secret ? [secret] : []), ...secrets.map((one) => one.name)])]
  return (
    <form noValidate className="grid gap-4" onSubmit={submits(() => save.mutate({ url, secret }))}>
      <p className="text-text-2">Another system is told when something new waits in the inbox, and when it was decided. Notices are signed with a <Link to="/secrets" className="text-accent-text underline">secret</Link> of the project.</p>
      <div className="grid gap-3 sm:grid-cols-[2fr_1fr]">
        <Field label="Address" problem={problemAt(save.error, 'webhook.url')}>{(ids) => <Input {...ids} inputMode="url" placeholder="https://example.com/hooks/emergent" value={url} onChange={(event) => setUrl(event.target.value)} />}</Field>
        <Field label="Secret that signs" problem={problemAt(save.error, 'webhook.secret')}>{(ids) => <Select {...ids} value={secret} onChange={(event) => setSecret(event.target.value)} options={[{ value: '', label: names.length > 0 ? 'Choose…' : 'There is no secret yet' }, ...names.map((name) => ({ value: name, label: name }))]} />}</Field>
      </div>
      <InlineError error={save.error && otherProblem(save.error, ['webhook.url', 'webhook.secret'])} />
      <p className="flex gap-2">
        <Button type="submit" variant="primary" busy={save.isPending} disabledReason={write.reason ?? (!url ? 'Enter an address.' : !secret ? 'Choose the secret that signs.' : undefined)}>Save the webhook</Button>
        {project.webhook && <Button disabledReason={write.reason} onClick={() => save.mutate(null)}>Remove it</Button>}
      </p>
    </form>
  )
}
