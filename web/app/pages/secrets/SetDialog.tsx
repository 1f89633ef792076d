import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, unwrap } from '~/api/client'
import { ApiError } from '~/api/errors'
import { keys } from '~/api/keys'
import { otherProblem, problemAt } from '~/api/problems'
import { secretsQuery } from '~/api/queries'
import { useMutationOnce } from '~/hooks/use-mutation-once'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { toast } from '~/ui/toast'

type Props = {
  /** The secret that is replaced. */
  known?: string
  /** The secrets that there are, if they may be read. */
  names: string[] | undefined
  disabledReason: string | undefined
  onClose: () => void
}

/** Sets a secret. The value of one that there is cannot be read back, so it is never replaced without a word. */
export function SetDialog({ known = '', names, disabledReason, onClose }: Props) {
  const client = useQueryClient()
  const [name, setName] = useState(known)
  const [value, setValue] = useState('')
  const isThere = known !== '' || names?.includes(name) === true
  const save = useMutationOnce({
    mutationFn: async () => {
      // Somebody may have set it after the list was read.
      if (!isThere && names && (await client.fetchQuery({ ...secretsQuery, staleTime: 0 })).some((one) => one.name === name)) throw new ApiError(409, 'conflict', `somebody set \`${name}\` meanwhile; send it again to replace its value`)
      return unwrap(api.PUT('/api/admin/secrets/{name}', { params: { path: { name } }, body: { value } }))
    },
    onSuccess: () => {
      toast(`The secret ${name} was ${isThere ? 'replaced' : 'set'}.`)
      void client.invalidateQueries({ queryKey: keys.secrets })
      onClose()
    },
  })
  const hint = isThere ? 'There is a secret of this name: its value is replaced, and cannot be restored.' : names ? 'Such as GITHUB_TOKEN.' : 'Such as GITHUB_TOKEN. The value of a secret that has this name already is replaced.'
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => save.mutate()}
      size="sm"
      title={known ? `Replace ${known}` : 'Set a secret'}
      footer={
        <>
          <Button onClick={onClose}>Discard</Button>
          <Button variant="primary" busy={save.isPending} disabledReason={disabledReason ?? (!name ? 'Name the secret.' : !value ? 'Enter its value.' : undefined)} type="submit">
            {isThere ? 'Replace the secret' : 'Set the secret'}
          </Button>
        </>
      }
    >
      <div className="grid gap-4">
        {!known && <Field label="Name" hint={hint} problem={problemAt(save.error, 'name')}>{(ids) => <Input {...ids} value={name} onChange={(event) => setName(event.target.value)} />}</Field>}
        <Field label="Value" hint="It is used from the next connection on." problem={problemAt(save.error, 'value')}>{(ids) => <Input {...ids} type="password" autoComplete="new-password" value={value} onChange={(event) => setValue(event.target.value)} />}</Field>
      </div>
      <InlineError error={save.error && otherProblem(save.error, ['name', 'value'])} />
    </Dialog>
  )
}
