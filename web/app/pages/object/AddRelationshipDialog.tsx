import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { api, unwrap } from '~/api/client'
import { type GraphObject, neighboursQuery, packsQuery } from '~/api/graph'
import { keys } from '~/api/keys'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Select, Textarea } from '~/ui/Field'
import { toast } from '~/ui/toast'
import { titleOf } from '~/util/objects'
import { parseJson } from '~/util/json'
import { apiProblems, type Problems } from './object-draft'
import { ObjectPicker } from './ObjectPicker'

export function AddRelationshipDialog({ id, title, disabledReason, onClose }: { id: string; title: string; disabledReason: string | undefined; onClose: () => void }) {
  const client = useQueryClient()
  const list = useId()
  const [direction, setDirection] = useState('out')
  const [type, setType] = useState('')
  const [other, setOther] = useState<GraphObject>()
  const [weight, setWeight] = useState('')
  const [properties, setProperties] = useState('{}')
  const [own, setOwn] = useState<Problems>({})
  const packs = useQuery(packsQuery).data ?? []
  const used = useQuery(neighboursQuery(id)).data?.edges ?? []
  const types = [...new Set([...used.map((edge) => edge.type), ...packs.flatMap((pack) => Object.keys(pack.relationshipTypeSchemas))])]

  const create = useMutationOnce({
    mutationFn: (body: { properties: Record<string, unknown>; weight: number | undefined; otherId: string }) => {
      const [fromId, toId] = direction === 'out' ? [id, body.otherId] : [body.otherId, id]
      return unwrap(api.POST('/api/graph/relationships', { body: { type: type.trim(), fromId, toId, weight: body.weight, properties: body.properties } }))
    },
    onSuccess: () => {
      toast('The relationship was added.')
      void client.invalidateQueries({ queryKey: keys.objects })
      onClose()
    },
  })
  const submit = () => {
    const found: Problems = {}
    let parsed: Record<string, unknown> = {}
    try {
      parsed = parseJson(properties || '{}') as Record<string, unknown>
    } catch (error) {
      found.properties = `This is not JSON: ${(error as Error).message}`
    }
    if (type.trim() === '') found.type = 'Name a type, such as knows.'
    if (!other) found.other = 'Choose an object.'
    if (weight.trim() !== '' && !Number.isFinite(Number(weight))) found.weight = 'This is not a number.'
    setOwn(found)
    if (other && Object.keys(found).length === 0) create.mutate({ properties: parsed, weight: weight.trim() === '' ? undefined : Number(weight), otherId: other.id })
  }
  const problems = { ...apiProblems(create.error), ...own }
  const ofProperties = Object.entries(problems).filter(([name]) => name.startsWith('properties')).map(([name, text]) => (name === 'properties' ? text : `${name.slice(11)}: ${text}`))
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={submit}
      title="Add a relationship"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" busy={create.isPending} disabledReason={disabledReason} type="submit">
            Add the relationship
          </Button>
        </>
      }
    >
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label="Direction">
          {(ids) => (
            <Select {...ids} value={direction} onChange={(event) => setDirection(event.target.value)} options={[{ value: 'out', label: `${title} → other` }, { value: 'in', label: `Other → ${title}` }]} />
          )}
        </Field>
        <Field label="Type" problem={problems.type}>
          {(ids) => (
            <>
              <Input {...ids} list={list} placeholder="knows" value={type} onChange={(event) => setType(event.target.value)} />
              <datalist id={list}>
                {types.map((one) => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </datalist>
            </>
          )}
        </Field>
        <div className="sm:col-span-2">
          <ObjectPicker label={other ? `Other object: ${titleOf(other)}` : 'Other object'} value={other} onChange={setOther} problem={problems.other ?? problems.toId ?? problems.fromId} exclude={id} />
        </div>
        <Field label="Properties (JSON)" problem={ofProperties.join('; ') || undefined} className="sm:col-span-2">
          {(ids) => <Textarea {...ids} rows={3} className="font-mono text-xs!" value={properties} onChange={(event) => setProperties(event.target.value)} />}
        </Field>
        <Field label="Weight" problem={problems.weight} hint="Any number; it may stay empty.">
          {(ids) => <Input {...ids} inputMode="decimal" value={weight} onChange={(event) => setWeight(event.target.value)} />}
        </Field>
      </div>
      {create.error && Object.keys(apiProblems(create.error)).length === 0 ? <InlineError error={create.error} /> : null}
    </Dialog>
  )
}
