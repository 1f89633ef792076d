// Whether the server still serves the files that this page was loaded from.

const entryOf = (page: Document) => page.querySelector('script[type=module][src]')?.getAttribute('src')

/** `other` means that the server was replaced by one with other files, so that the page has to be loaded again. */
export async function servedVersion(): Promise<'same' | 'other' | 'unreachable'> {
  try {
    const response = await fetch('/', { headers: { Accept: 'text/html' }, cache: 'no-store', credentials: 'same-origin' })
    if (!response.ok) return 'unreachable'
    const served = entryOf(new DOMParser().parseFromString(await response.text(), 'text/html'))
    return served && served !== entryOf(document) ? 'other' : 'same'
  } catch {
    return 'unreachable'
  }
}
