import { describe, expect, it } from 'vitest'
import { ApiError } from '~/api/errors'
import type { TemplatePack } from '~/api/graph'
import { apiProblems, fieldsOf, parseDraft, propertyChanges, schemaFields, toDraft } from './object-draft'

const pack = {
  objectTypeSchemas: { Task: { properties: { note: { type: 'string' }, title: { type: 'string' }, hours: { type: 'integer' }, tags: { type: 'array', items: { type: 'string' } }, open: { type: 'boolean' }, level: { enum: ['low', 'high'] } }, required: ['title'] } },
} as unknown as TemplatePack

const object = { type: 'Task', key: 'one', status: null, labels: ['a', 'b'], properties: { title: 'Write', hours: 3, tags: ['x', 'y'], open: false, level: 'low', other: { deep: 1 } } }

describe('the draft of an object', () => {
  it('has the fields of its schema, required ones first', () => {
    expect(schemaFields([pack], 'Task').map((field) => [field.name, field.kind])).toEqual([['title', 'text'], ['note', 'text'], ['hours', 'number'], ['tags', 'list'], ['open', 'boolean'], ['level', 'choice']])
    expect(schemaFields([pack], 'Person')).toEqual([])
  })

  it('becomes the same object when nothing was typed', () => {
    const fields = schemaFields([pack], 'Task')
    expect(parseDraft(toDraft(object, fields), fields)).toEqual({ parsed: object, problems: {} })
    expect(parseDraft(toDraft(object, []), []).parsed).toEqual(object)
  })

  it('leaves alone what nobody touched', () => {
    const fields = schemaFields([pack], 'Task')
    const stored = { ...object, status: ' open', labels: ['Berlin, Germany'], properties: { title: '', note: null, hours: '3', tags: ['Berlin, Germany', 'a\nb', ''], open: 'no', level: ' low', other: null } }
    const opened = toDraft(stored, fields)
    expect(opened.values.note).toBe('')
    expect(parseDraft(opened, fields, { object: stored, draft: opened })).toEqual({ parsed: stored, problems: {} })
    const { parsed } = parseDraft({ ...opened, values: { ...opened.values, note: 'new', tags: 'Oslo, Norway\nx' }, labels: 'c, d' }, fields, { object: stored, draft: opened })
    expect(parsed).toEqual({ ...stored, labels: ['c', 'd'], properties: { ...stored.properties, note: 'new', tags: ['Oslo, Norway', 'x'] } })
    expect(parseDraft({ ...opened, labels: '', values: { ...opened.values, hours: '' } }, fields, { object: stored, draft: opened }).parsed?.properties).not.toHaveProperty('hours')
  })

  it('keeps the properties of a type that is changed', () => {
    const opened = toDraft(object, schemaFields([pack], 'Task'))
    const draft = { ...opened, type: 'Person' }
    const fields = fieldsOf([pack], draft, object)
    expect(fields.map((field) => field.name)).toEqual(['title', 'hours', 'tags', 'open', 'level'])
    expect(parseDraft(draft, fields, { object, draft: opened }).parsed).toEqual({ ...object, type: 'Person' })
  })

  it('says at each field what is wrong', () => {
    const fields = schemaFields([pack], 'Task')
    const draft = toDraft(object, fields)
    const { parsed, problems } = parseDraft({ ...draft, type: ' ', values: { ...draft.values, hours: 'three' }, further: '[1]' }, fields)
    expect(parsed).toBeUndefined()
    expect(Object.keys(problems).sort()).toEqual(['properties', 'properties.hours', 'type'])
  })

  it('sends what has changed, and null for what is gone', () => {
    expect(propertyChanges({ a: 1, b: [1], c: 'x' }, { a: 1, b: [2], d: true })).toEqual({ b: [2], c: null, d: true })
  })

  it('takes the reasons of the API by field', () => {
    const error = new ApiError(400, 'invalid', 'no', [{ field: 'properties.title', reason: 'is required' }, { field: 'key', reason: 'is too long' }])
    expect(apiProblems(error)).toEqual({ 'properties.title': 'is required', key: 'is too long' })
    expect(apiProblems(new ApiError(409, 'key_taken', 'taken', { current: 1 }))).toEqual({})
  })
})
