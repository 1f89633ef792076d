import { useMutation } from '@tanstack/react-query'
import { RefreshCw } from 'lucide-react'
import { api, unwrap } from '~/api/client'
import { useScope } from '~/api/session'
import type { Schemas } from '~/api/types'
import { Badge } from '~/ui/Badge'
import { Button } from '~/ui/Button'
import { toast } from '~/ui/toast'
import { WithCode } from '~/ui/WithCode'

export type Update = Schemas['ProductUpdate']

/** Asks where each product came from for a newer version. */
export function CheckUpdates({ onFound }: { onFound: (updates: Update[]) => void }) {
  const { reason } = useScope('admin:read')
  const check = useMutation({
    mutationFn: () => unwrap(api.GET('/api/products/check-updates')),
    onSuccess: (updates) => {
      onFound(updates)
      const newer = updates.filter((one) => one.available)
      const unknown = updates.filter((one) => one.error)
      toast(newer.length > 0 ? `There is a newer version of ${newer.map((one) => one.name).join(', ')}.` : unknown.length > 0 ? `${unknown.map((one) => one.name).join(', ')} could not be checked.` : 'Every product is up to date.')
    },
    onError: (error) => toast('The sources could not be asked.', { kind: 'failed', description: error.message }),
  })
  return <Button icon={<RefreshCw aria-hidden size={14} />} disabledReason={reason} busy={check.isPending} onClick={() => check.mutate()}>Check for updates</Button>
}

export function VersionCell({ version, update }: { version: string; update: Update | undefined }) {
  return (
    <span className="inline-flex flex-wrap items-center gap-1.5">
      {version}
      {update?.available && <Badge tone="run">{update.latest} is there</Badge>}
      {update?.error && <span className="text-xs break-words text-text-2"><WithCode text={update.error} /></span>}
    </span>
  )
}
