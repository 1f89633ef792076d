// Large bodies: files that are uploaded with their progress, the import and export of the graph, and exports of conversations.
import { commonHeaders, reportUnauthorized } from './client'
import { ApiError } from './errors'
import type { Schemas } from './types'

export type Document = Schemas['Document']
export type ImportProgress = Schemas['ImportProgress']

type Uploading = { onProgress: (sent: number, total: number) => void; signal?: AbortSignal }

/** Uploads one file and returns its document. `created` is false if the same bytes were there already. */
export function uploadDocument(file: File, { onProgress, signal }: Uploading): Promise<{ document: Document; created: boolean }> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', '/api/documents')
    for (const [name, value] of Object.entries(commonHeaders())) request.setRequestHeader(name, value)
    request.responseType = 'json'
    request.upload.addEventListener('progress', (event) => onProgress(event.loaded, event.total))
    request.upload.addEventListener('load', () => onProgress(1, 1))
    request.addEventListener('error', () => reject(ApiError.unreachable()))
    request.addEventListener('abort', () => reject(new DOMException('The upload was cancelled.', 'AbortError')))
    request.addEventListener('load', () => {
      const answer = request.response as { data?: Document; error?: { code: string; message: string; details?: unknown } } | null
      if (request.status === 401) reportUnauthorized()
      if (request.status < 300 && answer?.data) resolve({ document: answer.data, created: request.status === 201 })
      else reject(new ApiError(request.status, answer?.error?.code ?? 'unknown', answer?.error?.message ?? `the server answered with status ${request.status}`, answer?.error?.details, request.getResponseHeader('x-request-id') ?? undefined))
    })
    signal?.addEventListener('abort', () => request.abort())
    const form = new FormData()
    form.append('file', file)
    request.send(form)
  })
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let response: Response
  try {
    response = await fetch(path, { ...init, credentials: 'same-origin', headers: { ...commonHeaders(), ...init.headers } })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw ApiError.unreachable()
  }
  if (response.status === 401) reportUnauthorized()
  if (!response.ok) throw ApiError.from(response, await response.json().catch(() => undefined))
  return response
}

/** Imports NDJSON and tells how far it is. */
export async function importGraph(body: Blob, options: { skipErrors: boolean; onProgress: (progress: ImportProgress) => void; signal: AbortSignal }) {
  const path = options.skipErrors ? '/api/graph/import?onError=skip' : '/api/graph/import'
  const response = await send(path, { method: 'POST', body, signal: options.signal, headers: { 'Content-Type': 'application/x-ndjson' } })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    const lines = (rest + (value ?? '')).split('\n')
    rest = done ? '' : (lines.pop() ?? '')
    for (const line of lines) if (line.trim() !== '') options.onProgress(JSON.parse(line) as ImportProgress)
    if (done) return
  }
}

/** Reads a conversation with all of its messages. A link could not name the project. */
export async function exportConversation(id: string, format: 'markdown' | 'jsonl'): Promise<Blob> {
  return (await send(`/api/chat/conversations/${id}/export?format=${format}`, {})).blob()
}

/** Reads the whole graph of the project as NDJSON. */
export async function exportGraph(): Promise<Blob> {
  return (await send('/api/graph/export', {})).blob()
}
