import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import type { Schemas } from '~/api/types'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Select, Switch, Textarea } from '~/ui/Field'
import { toast } from '~/ui/toast'
import { changesOf, checkDraft, type Draft, draftOf, requestOf, whyNotSaved } from './server-draft'

type Server = Schemas['McpServer']
const FIELDS = ['name', 'description', 'transport', 'url', 'command', 'args', 'env', 'headers', 'toolFilter', 'pinPolicy', 'timeoutSeconds', 'trust']

/** Adds a server, or changes the one that is given. */
export function ServerDialog({ server, disabledReason, onClose }: { server?: Server; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [opened] = useState(() => draftOf(server))
  const [form, setForm] = useState(opened)
  const changes = changesOf(opened, form)
  const found = checkDraft(form)
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change })
  const problem = (field: keyof Draft) => found[field] ?? problemAt(save.error, field)
  const isProgram = form.transport === 'stdio'
  const save = useMutationOnce({
    mutationFn: () => {
      if (!server) return unwrap(api.POST('/api/admin/mcp-servers', { body: requestOf(form) }))
      return unwrap(api.PATCH('/api/admin/mcp-servers/{id}', { params: { path: { id: server.id } }, body: changes }))
    },
    onSuccess: (saved) => {
      toast(server ? `The server ${saved.name} was changed.` : `The server ${saved.name} was added.`)
      void client.invalidateQueries({ queryKey: keys.mcpServers })
      void client.invalidateQueries({ queryKey: ['mcp-server'] })
      if (server && saved.name === server.name) onClose()
      else void navigate({ to: '/mcp-servers/$name', params: { name: saved.name }, replace: true })
    },
  })
  const text = (field: 'name' | 'description' | 'url' | 'command' | 'timeoutSeconds', label: string, hint?: string, placeholder?: string) => (
    <Field label={label} hint={hint} problem={problem(field)}>
      {(ids) => <Input {...ids} placeholder={placeholder} value={form[field]} onChange={(event) => set({ [field]: event.target.value })} />}
    </Field>
  )
  const area = (field: 'args' | 'env' | 'headers' | 'toolFilter', label: string, hint: string) => (
    <Field label={label} hint={hint} problem={problem(field)}>
      {(ids) => <Textarea {...ids} rows={2} value={form[field]} onChange={(event) => set({ [field]: event.target.value })} className="font-mono text-xs!" />}
    </Field>
  )
  const timeout = text('timeoutSeconds', 'Timeout of a call in seconds')
  const secretHint = 'One on each line, or all as JSON. ${NAME} stands for a secret of the project.'
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => save.mutate()}
      title={server ? `Edit ${server.name}` : 'Add an MCP server'}
      description={server?.product ? `The product ${server.product} brought it: what it is changes with the product. What follows can be changed here.` : 'It is contacted when it is first needed, or when you inspect it.'}
      footer={
        <>
          <Button onClick={onClose}>Discard</Button>
          <Button variant="primary" busy={save.isPending} disabledReason={disabledReason ?? whyNotSaved(form, server?.product) ?? (server && Object.keys(changes).length === 0 ? 'Nothing was changed yet.' : undefined)} type="submit">
            {server ? 'Save the server' : 'Add the server'}
          </Button>
        </>
      }
    >
      <div className="grid gap-4">
        {!server?.product && (
          <>
            <div className="grid gap-4 sm:grid-cols-2">
              {text('name', 'Name', 'Unique in the project.')}
              <Field label="Transport" problem={problem('transport')}>
                {(ids) => (
                  <Select {...ids} value={form.transport} onChange={(event) => set({ transport: event.target.value as Server['transport'] })} options={[{ value: 'http', label: 'HTTP' }, { value: 'sse', label: 'HTTP with server-sent events' }, { value: 'stdio', label: 'A program that is started here' }, { value: 'a2a', label: 'An agent of another system (A2A)' }]} />
                )}
              </Field>
            </div>
            {text('description', 'Description')}
            {isProgram ? text('command', 'Program', undefined, 'npx') : text('url', 'Address', undefined, 'https://example.com/mcp')}
            {isProgram && area('args', 'Arguments', 'One on each line, or a JSON list.')}
            {isProgram ? area('env', 'Environment', `NAME=value. ${secretHint}`) : area('headers', 'Headers', `Name: value. ${secretHint}`)}
            <div className="grid gap-4 sm:grid-cols-2">
              {area('toolFilter', 'Only these tools', 'Names or patterns, one on each line. * stands for all; empty: none.')}
              {timeout}
            </div>
          </>
        )}
        {server?.product && timeout}
        <Field label="When a tool changes" problem={problem('pinPolicy')}>
          {(ids) => <Select {...ids} value={form.pinPolicy} onChange={(event) => set({ pinPolicy: event.target.value as Server['pinPolicy'] })} options={[{ value: 'pin', label: 'Hold it back until somebody accepts it' }, { value: 'warn', label: 'Offer it, and say that it changed' }, { value: 'off', label: 'Offer it' }]} />}
        </Field>
        <Switch label="Accept new tools as they come" checked={form.trust} onChange={(trust) => set({ trust })} />
      </div>
      <InlineError error={save.error && otherProblem(save.error, FIELDS)} />
    </Dialog>
  )
}
