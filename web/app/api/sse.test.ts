import { describe, expect, it } from 'vitest'
import { type SseFrame, SseParser } from './sse'

const TEXT = 'retry: 1500\n: a comment\nid: 7-1\nevent: run\ndata: {"a":"é→🙂"}\ndata: second\n\nevent: empty\n\nid: 8\r\ndata:x\r\n\r\ndata: last\r\rdata: unfinished'
const EXPECTED: SseFrame[] = [
  { event: 'run', data: '{"a":"é→🙂"}\nsecond', id: '7-1' },
  { event: 'message', data: 'x', id: '8' },
  { event: 'message', data: 'last', id: '8' },
]

describe('the parser of event streams', () => {
  const bytes = new TextEncoder().encode(TEXT)

  it('returns the same frames wherever the stream is cut', () => {
    for (let cut = 0; cut <= bytes.length; cut++) {
      const parser = new SseParser()
      expect([...parser.push(bytes.subarray(0, cut)), ...parser.push(bytes.subarray(cut))], `cut at ${cut}`).toEqual(EXPECTED)
      expect([parser.lastId, parser.retry]).toEqual(['8', 1500])
    }
  })

  it('takes single bytes', () => {
    const parser = new SseParser()
    expect([...bytes].flatMap((byte) => parser.push(Uint8Array.of(byte)))).toEqual(EXPECTED)
  })
})
