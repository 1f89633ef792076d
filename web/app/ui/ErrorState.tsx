import { CircleX } from 'lucide-react'
import { ApiError, advice } from '~/api/errors'
import { Button } from './Button'
import { CopyButton } from './CopyButton'
import { JsonView } from './JsonView'
import { WithCode } from './WithCode'

const sentence = (text: string) => {
  const upper = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(upper) ? upper : `${upper}.`
}

function Details({ error }: { error: ApiError }) {
  const hasDetails = error.details !== undefined && error.details !== null
  return (
    <div className="mt-2 flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-text-2">
      <code className="font-mono">{error.status === 0 ? error.code : `${error.status} ${error.code}`}</code>
      {error.requestId && (
        <span className="inline-flex items-center gap-1">
          Request <code className="font-mono wrap-anywhere">{error.requestId}</code>
          <CopyButton text={error.requestId} label="Copy the request id" />
        </span>
      )}
      {hasDetails && (
        <div className="w-full">
          <JsonView value={error.details} />
        </div>
      )}
    </div>
  )
}

/** What failed, why, and what to do. `what` completes "… could not be loaded", or is a whole sentence. */
export function ErrorState({ error, what, onRetry, retry = 'Try again' }: { error: unknown; what: string; onRetry?: () => void; /** The label of the button. */ retry?: string }) {
  const message = error instanceof Error ? error.message : String(error)
  return (
    <div role="alert" className="m-4 rounded-lg border border-line bg-fail-soft p-4">
      <p className="flex items-center gap-2 font-medium text-fail">
        <CircleX aria-hidden size={16} />
        {what}
      </p>
      <p className="mt-1 text-text"><WithCode text={sentence(message)} /></p>
      <p className="mt-1 text-text-2">{advice(error)}</p>
      {error instanceof ApiError && <Details error={error} />}
      {onRetry && (
        <Button size="sm" className="mt-3" onClick={onRetry}>
          {retry}
        </Button>
      )}
    </div>
  )
}

/** The same in a form or a dialog. `hint` takes the place of the usual advice. */
export function InlineError({ error, hint }: { error: unknown; hint?: string | undefined }) {
  if (!error) return null
  return (
    <div role="alert" className="mt-3 rounded-md bg-fail-soft px-3 py-2 text-sm text-fail">
      <WithCode text={sentence(error instanceof Error ? error.message : String(error))} />
      <span className="block text-text-2">{hint ?? advice(error)}</span>
      {error instanceof ApiError && <Details error={error} />}
    </div>
  )
}
