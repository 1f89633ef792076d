import { expect, it } from 'vitest'
import { fieldsOf, valueOf } from './schema-fields'

const text = { type: 'string' }

it('asks for what is required first, in the order of the schema, and then by name', () => {
  const fields = fieldsOf({ type: 'object', required: ['name', 'limitEur', 'channel'], properties: { zone: text, channel: text, fax: { type: 'boolean' }, limitEur: { type: 'integer' }, name: text } })
  expect(fields?.map(({ name }) => name)).toEqual(['name', 'limitEur', 'channel', 'fax', 'zone'])
})

it('has no form for parts that it cannot show', () => {
  expect(fieldsOf({ type: 'object', properties: { list: { type: 'array' } } })).toBeUndefined()
})

it('leaves out what is empty and not required', () => {
  const fields = fieldsOf({ type: 'object', required: ['limit'], properties: { limit: { type: 'number' }, note: text } })!
  expect(valueOf(fields, { limit: '2.5' })).toEqual({ limit: 2.5 })
})
