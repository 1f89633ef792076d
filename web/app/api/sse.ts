// A parser of server-sent events that may be fed any pieces of the stream, also halves of a character.

export type SseFrame = { event: string; data: string; id: string | undefined }

export class SseParser {
  #decoder = new TextDecoder()
  #rest = ''
  #event = ''
  #data: string[] = []
  #lastId: string | undefined
  #retry: number | undefined
  #endedWithCarriageReturn = false

  /** The newest `id:`, with which a reconnection continues. */
  get lastId() {
    return this.#lastId
  }

  /** The pause before a reconnection in milliseconds, if the server named one. */
  get retry() {
    return this.#retry
  }

  /** Takes a piece of the stream and returns the frames that are complete with it. */
  push(bytes: Uint8Array): SseFrame[] {
    let text = this.#decoder.decode(bytes, { stream: true })
    // A line feed after a carriage return at the end of the last piece belongs to the same line end.
    if (this.#endedWithCarriageReturn && text.startsWith('\n')) text = text.slice(1)
    if (text !== '') this.#endedWithCarriageReturn = text.endsWith('\r')
    const lines = (this.#rest + text).split(/\r\n|\r|\n/)
    this.#rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.#line(line))
  }

  #line(line: string): SseFrame[] {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) return []
    const field = colon < 0 ? line : line.slice(0, colon)
    let value = colon < 0 ? '' : line.slice(colon + 1)
    if (value.startsWith(' ')) value = value.slice(1)
    if (field === 'event') this.#event = value
    else if (field === 'data') this.#data.push(value)
    else if (field === 'id' && !value.includes('\0')) this.#lastId = value
    else if (field === 'retry' && /^\d+$/.test(value)) this.#retry = Number(value)
    return []
  }

  #dispatch(): SseFrame[] {
    const frame = { event: this.#event || 'message', data: this.#data.join('\n'), id: this.#lastId }
    const hasData = this.#data.length > 0
    this.#event = ''
    this.#data = []
    return hasData ? [frame] : []
  }
}
