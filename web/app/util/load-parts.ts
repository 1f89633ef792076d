// Loads the parts of the program that are files of their own, while the server may be away.
import { servedVersion } from '~/api/served-version'
import { hasDrafts } from '~/hooks/use-draft'
import { askToDiscard, hasUnsaved } from '~/hooks/use-unsaved'
import { toast } from '~/ui/toast'

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** What to do when the server has other files, with other names, which only a reload learns. */
export const REPLACED = 'The server was replaced by another version. Reload the page.'

export class OtherFiles extends Error {
  constructor() {
    super('the server was replaced by another version: reload the page')
  }
}

/** Whether anything is written that a reload would lose. */
export const isWritten = () => hasUnsaved('dialog') || hasUnsaved('page') || hasDrafts()

/** Reloads the page, after a question if that loses what is written. */
export async function reload() {
  if (!isWritten() || (await askToDiscard())) location.reload()
}

/** Imports a file, and again after each of the pauses if that fails. */
export async function importAgain<T>(importer: () => Promise<T>, pauses: readonly number[] = [500, 1500]): Promise<T> {
  for (const milliseconds of pauses) {
    try {
      return await importer()
    } catch {
      await pause(milliseconds)
    }
  }
  return importer()
}

const LONGEST = 5_000

/** Imports a file however long the server is away, and fails with `OtherFiles` when it never comes. */
export async function importUntilLoaded<T>(importer: () => Promise<T>): Promise<T> {
  for (let milliseconds = 500; ; milliseconds = Math.min(LONGEST, milliseconds * 2)) {
    try {
      return await importer()
    } catch {
      if ((await servedVersion()) === 'other') throw new OtherFiles()
      await pause(milliseconds)
    }
  }
}

/** Like `importUntilLoaded`, for small parts, whose absence must not take the page with it: it is said, and `instead` is shown. */
export const importOrTell = <T>(importer: () => Promise<T>, instead: T): Promise<T> =>
  importUntilLoaded(importer).catch(() => {
    toast('This part of the page could not be loaded.', { kind: 'failed', description: REPLACED })
    return instead
  })
