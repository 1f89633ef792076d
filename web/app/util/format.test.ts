import { expect, it } from 'vitest'
import { formatAbsolute, formatRelative, formatSeen, words } from './format'

it('rounds what is past down, and what comes to the nearest', () => {
  const now = Date.parse('2026-03-01T12:00:00Z')
  const told = (seconds: number) => formatRelative(now + seconds * 1000, now)
  expect([told(-3), told(-59), told(-119), told(-7199), told(-100_000)]).toEqual(['now', '59 s ago', '1 min ago', '1 h ago', '1 d ago'])
  expect([told(59), told(59.9), told(7199), told(86_399), told(90), told(129_600)]).toEqual(['in 59 s', 'in 1 min', 'in 2 h', 'in 1 d', 'in 2 min', 'in 2 d'])
})

it('names the zone of an exact time', () => {
  const zone = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'short' }).formatToParts(0).find(({ type }) => type === 'timeZoneName')!.value
  expect(formatAbsolute('1970-01-01T00:00:00Z').endsWith(` ${zone}`)).toBe(true)
})

it('says that there are more than were counted', () => {
  expect([formatSeen(100, true), formatSeen(100, false), formatSeen(1200, true)]).toEqual(['100+', '100', '1,200+'])
})

it('says names of the API in plain words', () => {
  expect([words('step_limit'), words('doom_loop'), words('mcp_server'), words('constructor')]).toEqual(['step limit', 'repeated the same call', 'MCP server', 'constructor'])
})
