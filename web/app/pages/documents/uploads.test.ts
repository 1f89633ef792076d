import { expect, it } from 'vitest'
import { ApiError } from '~/api/errors'
import { whyFailed } from './uploads'

const refused = (...details: { field: string; reason: string }[]) => new ApiError(400, 'invalid', details.map(({ field, reason }) => `\`${field}\`: ${reason}`).join('; '), details)

it('says why a file was refused without the names of the fields of the request', () => {
  expect(whyFailed(refused({ field: 'mimeType', reason: '`image/png` is not a supported document type' }))).toBe('`image/png` is not a supported document type.')
  expect(whyFailed(refused({ field: 'content', reason: 'the document is not text: it has a null byte at byte 0' }))).toBe('The document is not text: it has a null byte at byte 0.')
  expect(whyFailed(refused({ field: 'content', reason: 'could not be read: the file may be damaged' }, { field: 'title', reason: 'must be 1 to 500 characters' }))).toBe('The file could not be read: the file may be damaged. The name of the file must be 1 to 500 characters.')
  expect(whyFailed(new Error('A file may have at most 64 MiB.'))).toBe('A file may have at most 64 MiB.')
})
