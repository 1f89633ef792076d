/** What the API said about a request that failed. */
export class ApiError extends Error {
  readonly status: number
  /** A stable name of the problem, such as `not_found`. */
  readonly code: string
  readonly details: unknown
  readonly requestId: string | undefined

  constructor(status: number, code: string, message: string, details?: unknown, requestId?: string) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.code = code
    this.details = details
    this.requestId = requestId
  }

  static from(response: Response, body: unknown): ApiError {
    const failure = (body as { error?: { code?: string; message?: string; details?: unknown } } | undefined)?.error
    return new ApiError(
      response.status,
      failure?.code ?? 'unknown',
      failure?.message ?? `the server answered with status ${response.status}`,
      failure?.details,
      response.headers.get('x-request-id') ?? undefined,
    )
  }

  static unreachable(): ApiError {
    return new ApiError(0, 'unreachable', 'the server cannot be reached')
  }

  /** Whether the same request may succeed later without a change. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500
  }
}

/** Whether something is not there: it was never made, is deleted, or was not made yet at that moment. */
export const isMissing = (error: unknown): boolean => error instanceof ApiError && error.status === 404

/** The codes of conflicts with a change of somebody else. Other conflicts are with something that the message names. */
const CHANGED_MEANWHILE: ReadonlySet<string> = new Set(['version_conflict', 'already_decided'])

/** What a person can do about a failure. */
export function advice(error: unknown): string {
  if (!(error instanceof ApiError)) return 'Reload the page. If it happens again, report it with the steps that led here.'
  if (error.status === 0) return 'Check that the server runs and that this browser can reach it.'
  if (error.status === 403) return 'Log in with a token that has the scope, or ask whoever manages the tokens.'
  if (error.status === 404) return 'It may have been deleted, or it belongs to another project.'
  if (error.code === 'no_model') return 'Start the server with a key for a model, or give the agent a model that the server has a key for.'
  if (CHANGED_MEANWHILE.has(error.code)) return 'Somebody changed it meanwhile. Reload it and try again.'
  if (error.status === 429) return 'Wait a moment and try again.'
  if (error.status >= 500) return 'Try again. If it persists, look for the request id in the log of the server.'
  return 'Correct what the message names and try again.'
}

/** The advice for a message to the search, which has no agent that could be given a model. */
export const adviceForSearch = (error: unknown): string | undefined =>
  error instanceof ApiError && error.code === 'no_model' ? 'The search has no agent, so it needs a model for the whole server: start the server with EMERGENT_MODEL=provider/name and the key of that provider, or choose an agent that has a model.' : undefined
