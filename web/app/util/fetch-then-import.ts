// The build calls this for each `import()`: `vite.config.ts` puts it in the place of Vite's own function, which preloads.

const fetched: Record<string, Promise<unknown>> = {}

async function read(file: string) {
  const response = await fetch(`/${file}`)
  if (!response.ok) throw new Error(`${file}: ${response.status}`)
  // The import then finds the whole file in the cache of the browser.
  await response.arrayBuffer()
}

/**
 * Fetches a part of the program, with all `files` that it needs, before it imports it. Chromium never repeats an import
 * that failed while the server was away, neither of the part nor of what it imports; a request it does repeat.
 * Styles are in one file that is loaded with the page, so there are none to wait for.
 */
export async function fetchThenImport<T>(importer: () => Promise<T>, files: readonly string[] = []): Promise<T> {
  await Promise.all(
    files.map(
      (file) =>
        (fetched[file] ??= read(file).catch((error: unknown) => {
          delete fetched[file]
          throw error
        })),
    ),
  )
  return importer()
}
