// The one client of the API. It names the project of the URL, turns failures into `ApiError`, and reports a 401.
import createClient, { type Middleware } from 'openapi-fetch'
import { bodyText, parseJson } from '~/util/json'
import { ApiError } from './errors'
import type { paths } from './schema'

let project: string | undefined

/** The project that requests name; `undefined` means the one of the token. */
export const currentProject = () => project
export const setCurrentProject = (next: string | undefined) => {
  project = next
}

const onLostSession = new Set<() => void>()

/** Calls `listener` when the server says that nobody is logged in any more. */
export function onUnauthorized(listener: () => void) {
  onLostSession.add(listener)
  return () => onLostSession.delete(listener)
}

export const reportUnauthorized = () => onLostSession.forEach((listener) => listener())

/** The headers that every request has. The login itself is a cookie that scripts cannot read. */
export function commonHeaders(): Record<string, string> {
  return project ? { 'X-Project-ID': project } : {}
}

const middleware: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(commonHeaders())) request.headers.set(name, value)
    return request
  },
  onResponse({ response, schemaPath }) {
    if (response.status === 401 && schemaPath !== '/api/session') reportUnauthorized()
  },
}

/** Numbers keep all of their digits. The client calls `json` only on an answer whose length it knows. */
async function fetchExactly(request: Request): Promise<Response> {
  const response = await fetch(request)
  const headers = new Headers(response.headers)
  if (!headers.has('Content-Length')) headers.set('Content-Length', 'unknown')
  const json = async () => {
    const text = await response.text()
    return text ? parseJson(text) : undefined
  }
  return Object.defineProperties(response, { headers: { value: headers }, json: { value: json } })
}

/** A body that cannot be sent is refused like one that the server refuses: the server is not asked. */
function toBody(value: unknown): string {
  try {
    return bodyText(value)
  } catch (error) {
    throw new ApiError(400, 'invalid', (error as Error).message)
  }
}

export const api = createClient<paths>({ credentials: 'same-origin', fetch: fetchExactly, bodySerializer: toBody })
api.use(middleware)

type Answer<T> = { data?: { data: T }; error?: unknown; response: Response }

/** Returns the data of an answer, or throws what the server said. */
export async function unwrap<T>(answer: Promise<Answer<T>>): Promise<T> {
  return (await unwrapPage(answer)).items
}

export type Page<T> = { items: T; cursor: string | undefined }

/** Like `unwrap`, with the cursor of the next page. */
export async function unwrapPage<T>(answer: Promise<Answer<T>>): Promise<Page<T>> {
  let settled: Answer<T>
  try {
    settled = await answer
  } catch (error) {
    if (error instanceof ApiError || (error instanceof DOMException && error.name === 'AbortError')) throw error
    throw ApiError.unreachable()
  }
  const { data, error, response } = settled
  if (!response.ok || data === undefined) throw ApiError.from(response, error)
  return { items: data.data, cursor: response.headers.get('x-next-cursor') ?? undefined }
}

const MOST_PAGES = 20

/** Reads a list to its end, page by page. If it is longer than a person would look through, the cursor says so. */
export async function unwrapAll<T>(read: (cursor: string | undefined) => Promise<Answer<T[]>>): Promise<Page<T[]>> {
  let page = await unwrapPage(read(undefined))
  const items = page.items
  for (let count = 1; page.cursor && count < MOST_PAGES; count++) {
    page = await unwrapPage(read(page.cursor))
    items.push(...page.items)
  }
  return { items, cursor: page.cursor }
}
