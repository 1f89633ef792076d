import { expect, it } from 'vitest'
import { checkDraft, draftOf, filterOf, pairs, whyNotSaved } from './server-draft'

const draft = { ...draftOf(undefined), name: 'tickets', url: 'https://tickets.example.com/mcp' }

it('accepts what the API accepts', () => {
  expect(checkDraft(draft)).toEqual({})
  expect(whyNotSaved(draft, undefined)).toBeUndefined()
  expect(whyNotSaved({ ...draft, transport: 'stdio', url: '', command: 'npx', env: 'TOKEN=${TOKEN}\nEMPTY=' }, undefined)).toBeUndefined()
  expect(pairs('Authorization: Bearer a:b\n', ':')).toEqual({ Authorization: 'Bearer a:b' })
})

it('asks for all tools when no pattern is given', () => {
  expect(filterOf(draft)).toEqual(['*'])
  expect(filterOf({ ...draft, toolFilter: 'invoice_*\n' })).toEqual(['invoice_*'])
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
