import { ApiError } from './errors'

type Detail = { field?: unknown; pointer?: unknown; reason?: unknown; message?: unknown }

/** What the API said about the fields of a request, in its order. */
export function problemsOf(error: unknown): { field: string; reason: string }[] {
  if (!(error instanceof ApiError) || !Array.isArray(error.details)) return []
  return (error.details as Detail[]).flatMap((detail) => {
    const field = detail.field ?? detail.pointer
    const reason = detail.reason ?? detail.message
    return typeof field === 'string' && typeof reason === 'string' ? [{ field, reason }] : []
  })
}

/** What is wrong with a field or with something inside of it, such as `tools[1]` of `tools`. */
export function problemAt(error: unknown, field: string): string | undefined {
  const found = problemsOf(error).filter((one) => one.field === field || one.field.startsWith(`${field}.`) || one.field.startsWith(`${field}[`))
  return found.length > 0 ? found.map((one) => (one.field === field ? one.reason : `${one.field}: ${one.reason}`)).join('; ') : undefined
}

/** The error unless each of its problems belongs to one of the fields that are shown. */
export function otherProblem(error: unknown, fields: readonly string[]): unknown {
  const problems = problemsOf(error)
  const isShown = (name: string) => fields.some((field) => name === field || name.startsWith(`${field}.`) || name.startsWith(`${field}[`))
  return problems.length > 0 && problems.every((one) => isShown(one.field)) ? undefined : error
}
