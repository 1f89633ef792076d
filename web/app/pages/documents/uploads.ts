// The uploads of this tab. They go on while other pages are shown.
import { useSyncExternalStore } from 'react'
import { ApiError } from '~/api/errors'
import { problemsOf } from '~/api/problems'
import { queryClient } from '~/api/query-client'
import { keys } from '~/api/keys'
import { type Document, uploadDocument } from '~/api/transfer'
import { capitalised } from '~/util/format'

export type Upload = {
  id: number
  name: string
  size: number
  /** From 0 to 1. */
  sent: number
  state: 'waiting' | 'sending' | 'reading' | 'done' | 'known' | 'failed' | 'cancelled'
  document?: Document
  error?: Error
}

/** The most that the server takes in one file. */
export const MAX_BYTES = 64 * 1024 * 1024
const AT_ONCE = 2

let uploads: readonly Upload[] = []
let next = 1
let running = 0
const listeners = new Set<() => void>()
const files = new Map<number, File>()
const controllers = new Map<number, AbortController>()

function set(change: (known: readonly Upload[]) => readonly Upload[]) {
  uploads = change(uploads)
  listeners.forEach((listener) => listener())
}
const update = (id: number, change: Partial<Upload>) => set((known) => known.map((upload) => (upload.id === id ? { ...upload, ...change } : upload)))

export function useUploads(): readonly Upload[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => uploads,
  )
}

export function addFiles(chosen: Iterable<File>) {
  const added = [...chosen].map((file): Upload => {
    const id = next++
    files.set(id, file)
    const tooLarge = file.size > MAX_BYTES
    return { id, name: file.name, size: file.size, sent: 0, state: tooLarge ? 'failed' : 'waiting', error: tooLarge ? new Error('A file may have at most 64 MiB.') : undefined }
  })
  set((known) => [...added, ...known])
  work()
}

export function retryUpload(id: number) {
  update(id, { state: 'waiting', sent: 0, error: undefined })
  work()
}

/** Whether the same file may be taken another time. What the server refused because of the file, it refuses again. */
export const canRetry = ({ state, error }: Upload) => state === 'cancelled' || (state === 'failed' && error instanceof ApiError && ![400, 413, 415, 422].includes(error.status))

/** Why a file was refused. The fields of the request are not what a person filled in: they chose a file. */
export function whyFailed(error: Error): string {
  const problems = problemsOf(error)
  if (problems.length === 0) return error.message
  return problems
    .map(({ field, reason }) => (/^(has|is|could|must|may)\b/.test(reason) ? `The ${field === 'title' ? 'name of the file' : 'file'} ${reason}` : capitalised(reason)))
    .map((reason) => (/[.?!]$/.test(reason) ? reason : `${reason}.`))
    .join(' ')
}

export function cancelUpload(id: number) {
  controllers.get(id)?.abort()
  update(id, { state: 'cancelled' })
}

export const clearUploads = () => set((known) => known.filter(({ state }) => ['waiting', 'sending', 'reading'].includes(state)))

function work() {
  // The oldest that waits comes first.
  const waiting = uploads.findLast((upload) => upload.state === 'waiting')
  if (!waiting || running >= AT_ONCE) return
  running++
  void send(waiting).finally(() => {
    running--
    work()
  })
  work()
}

async function send({ id }: Upload) {
  const controller = new AbortController()
  controllers.set(id, controller)
  update(id, { state: 'sending' })
  try {
    const { document, created } = await uploadDocument(files.get(id)!, {
      signal: controller.signal,
      onProgress: (sent, total) => update(id, { sent: sent / Math.max(1, total), state: sent >= total ? 'reading' : 'sending' }),
    })
    update(id, { state: created ? 'done' : 'known', document, sent: 1 })
    void queryClient.invalidateQueries({ queryKey: keys.documents })
  } catch (error) {
    update(id, controller.signal.aborted ? { state: 'cancelled' } : { state: 'failed', error: error as Error })
  } finally {
    controllers.delete(id)
  }
}
