import { expect, it } from 'vitest'
import type { Schemas } from '~/api/types'
import { changesOf, checkDraft, draftOf, pairs, requestOf, whyNotSaved } from './server-draft'

const draft = { ...draftOf(undefined), name: 'tickets', url: 'https://tickets.example.com/mcp' }

it('accepts what the API accepts', () => {
  expect(checkDraft(draft)).toEqual({})
  expect(whyNotSaved(draft, undefined)).toBeUndefined()
  expect(whyNotSaved({ ...draft, transport: 'stdio', url: '', command: 'npx', env: 'TOKEN=${TOKEN}\nEMPTY=' }, undefined)).toBeUndefined()
  expect(pairs('Authorization: Bearer a:b\n', ':')).toEqual({ Authorization: 'Bearer a:b' })
})

it('asks for all tools at first, and for none when no pattern is left', () => {
  expect(requestOf(draft).toolFilter).toEqual(['*'])
  expect(requestOf({ ...draft, toolFilter: 'invoice_*\n' }).toolFilter).toEqual(['invoice_*'])
  expect(requestOf({ ...draft, toolFilter: '' }).toolFilter).toEqual([])
})

const stored = {
  name: 'shell', description: '', transport: 'stdio', command: ' sh', args: ['-c', 'echo one\necho two', '', ' x '], env: { KEY: '-----BEGIN\nabc\n', B: ' a b ' }, headers: {}, toolFilter: [], pinPolicy: 'pin', timeoutSeconds: 60, trust: false,
} as unknown as Schemas['McpServer']

it('changes only what was changed', () => {
  const opened = draftOf(stored)
  expect(checkDraft(opened)).toEqual({})
  expect(changesOf(opened, opened)).toEqual({})
  expect(changesOf(opened, { ...opened, description: 'A shell' })).toEqual({ description: 'A shell' })
  expect(changesOf(opened, { ...opened, toolFilter: '*' })).toEqual({ toolFilter: ['*'] })
  expect(changesOf(opened, { ...opened, transport: 'http', url: 'https://a.example' })).toEqual({ transport: 'http', url: 'https://a.example' })
})

it('shows as JSON what lines would change', () => {
  const opened = draftOf(stored)
  expect(requestOf(opened)).toMatchObject({ args: stored.args, env: stored.env, toolFilter: [] })
  expect(draftOf({ ...stored, args: ['-y', 'files'], env: { A: 'b=c' } })).toMatchObject({ args: '-y\nfiles', env: 'A=b=c' })
  for (const env of ['{', '{ "A": 1 }']) expect(checkDraft({ ...opened, env }).env).toMatch(/^Write JSON/)
  expect(checkDraft({ ...opened, env: '[1]' }).env).toBe('“[1]” is not NAME=value.')
  expect(checkDraft({ ...opened, args: '[1]' }).args).toMatch(/^Write a JSON list/)
})

it('never takes a timeout for another one', () => {
  for (const timeoutSeconds of ['', '0', 'abc', '1.5', '-3', '3601', '1e3']) {
    expect(checkDraft({ ...draft, timeoutSeconds }).timeoutSeconds, timeoutSeconds).toBe('Use 1 to 3,600 seconds.')
    expect(whyNotSaved({ ...draft, timeoutSeconds }, 'desk')).toBe('Use 1 to 3,600 seconds.')
  }
  for (const timeoutSeconds of ['1', ' 60 ', '3600']) expect(checkDraft({ ...draft, timeoutSeconds })).toEqual({})
})

it('says at each field what is wrong with it', () => {
  expect(checkDraft({ ...draft, name: '-a b' }).name).toContain('letters, digits')
  expect(checkDraft({ ...draft, url: 'tickets.example.com' }).url).toContain('https://')
  expect(checkDraft({ ...draft, headers: 'Accept-Language: en\nBearer x' }).headers).toBe('“Bearer x” is not Name: value.')
  expect(checkDraft({ ...draft, transport: 'stdio', env: 'TOKEN' }).env).toBe('“TOKEN” is not NAME=value.')
  expect(whyNotSaved({ ...draft, url: '' }, undefined)).toBe('Give its address.')
  expect(whyNotSaved({ ...draft, transport: 'stdio' }, undefined)).toBe('Name the program.')
  expect(whyNotSaved({ ...draft, name: '' }, undefined)).toBe('Give the server a name.')
})
