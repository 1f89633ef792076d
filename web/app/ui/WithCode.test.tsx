import { renderToStaticMarkup } from 'react-dom/server'
import { expect, it } from 'vitest'
import { WithCode } from './WithCode'

const shown = (text: string | undefined) => renderToStaticMarkup(<WithCode text={text} />).replaceAll(/ class="[^"]*"/g, '')

it('shows what stands between backticks as code', () => {
  expect(shown('task `build` failed: expected `,` or `}`')).toBe('task <code>build</code> failed: expected <code>,</code> or <code>}</code>')
  expect(shown('`<b>`')).toBe('<code>&lt;b&gt;</code>')
  expect(shown(undefined)).toBe('')
})

it('leaves single backticks and fences as they are', () => {
  expect(shown('a ` alone')).toBe('a ` alone')
  expect(shown('```\nx\n```')).toBe('```\nx\n```')
  expect(shown('over `two\nlines`')).toBe('over `two\nlines`')
})
