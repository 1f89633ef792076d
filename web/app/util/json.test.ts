import { expect, it } from 'vitest'
import { ExactNumber, bodyText, hasParts, jsonText, numberOf, parseJson } from './json'

it('keeps each number as it was written, wherever it stands', () => {
  for (const text of [
    '{"accountId":9007199254740995}',
    '[9007199254740993,-9007199254740993,18446744073709551615]',
    '{"a":{"b":[0.1234567890123456789,1e400,1]},"c":"9007199254740995"}',
    '9007199254740995',
    '1e400',
    '{"id":"3e123","n":-1.5e400}',
    String.raw`{"text \"9007199254740995":"\\","n":9007199254740995}`,
  ]) expect(jsonText(parseJson(text)), text).toBe(text)
  expect(jsonText(parseJson('[1, 1e400,\n -2E999]'))).toBe('[1,1e400,-2E999]')
})

it('leaves the numbers that the browser reads exactly', () => {
  const text = '{"a":9007199254740991,"b":0.30000000000000004,"c":1e21,"d":1.7976931348623157e308,"e":5e-324,"f":"0123456789012345678"}'
  const value = parseJson(text) as Record<string, unknown>
  expect(value).toEqual(JSON.parse(text))
  // However a server writes them.
  for (const number of ['10000000000000000.0', '1e-07', '1.0000000000000000e2', '-0.0', '1E+5']) expect(parseJson(number), number).toBe(Number(number))
})

it('reads texts of any length and with any number of escapes', () => {
  const long = `"${'\\n'.repeat(6_000_000)}"`
  expect((parseJson(`[${long},9007199254740995]`) as unknown[])[1]).toEqual(new ExactNumber('9007199254740995'))
  const text = String.raw`["\\\\","\"9007199254740995\\","",9007199254740995]`
  expect(jsonText(parseJson(text))).toBe(text)
})

it('takes no text for a number, and says what is no JSON about the text as it is', () => {
  const made = jsonText({ text: 'number-x:1', other: new ExactNumber('12345678901234567890').toString() })
  expect(made).toBe('{"text":"number-x:1","other":"12345678901234567890"}')
  expect(() => parseJson('{"a":9007199254740995,}')).toThrow(SyntaxError)
  try {
    parseJson('[9007199254740995,}')
  } catch (error) {
    expect(String(error)).not.toContain('number-')
  }
})

it('shows, compares and sums an exact number', () => {
  const number = parseJson('9007199254740995') as ExactNumber
  expect(String(number)).toBe('9007199254740995')
  expect([...number]).toEqual(['9007199254740995'])
  expect(Number(number) > 9e15).toBe(true)
  expect(new Intl.NumberFormat('en').format(number as never)).toMatch(/^9,007,199,254,740,99\d$/)
  expect(hasParts(number)).toBe(false)
  expect(hasParts([number])).toBe(true)
})

it('reads a number that somebody typed', () => {
  expect(numberOf('9007199254740993')).toEqual(new ExactNumber('9007199254740993'))
  expect(numberOf(' -2.50 ')).toBe(-2.5)
  // However it is written, none of its digits is lost.
  for (const text of ['+9007199254740993', '09007199254740993', '9007199254740993.']) expect(numberOf(text), text).toEqual(new ExactNumber('9007199254740993'))
  expect(jsonText([numberOf('-.12345678901234567'), numberOf('+007.5E+400')])).toBe('[-0.12345678901234567,7.5E+400]')
  for (const [text, number] of [['+5', 5], ['5.', 5], ['.5', 0.5], ['-.5e1', -5], ['007', 7], ['0', 0], ['00', 0]] as const) expect(numberOf(text), text).toBe(number)
  for (const text of ['0x20000000000001', '0b1', '.', '+', '-', 'e5', '.e5', '1e', '1_000', '', ' ', 'many', 'Infinity', '1,5', '80000-']) expect(numberOf(text), text).toBeUndefined()
})

it('sends no number that is none as null', () => {
  expect(bodyText({ tokens: null, usd: 2 })).toBe('{"tokens":null,"usd":2}')
  expect(() => bodyText({ limit: { tokens: NaN } })).toThrow('tokens is no number')
  expect(() => bodyText([Infinity])).toThrow('is no number')
})
