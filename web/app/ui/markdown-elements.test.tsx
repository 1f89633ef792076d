import { renderToStaticMarkup } from 'react-dom/server'
import { expect, it } from 'vitest'
import { toElements } from './markdown-elements'

const shown = (text: string) => renderToStaticMarkup(<>{toElements(text)}</>)

it('shows what Markdown can say', () => {
  expect(shown('# One\n\nA **bold** and _soft_ ~~old~~ `x < y`\nline')).toBe('<h1>One</h1><p>A <strong>bold</strong> and <em>soft</em> <del>old</del> <code>x &lt; y</code><br/>line</p>')
  expect(shown('- a\n- b\n  1. c')).toBe('<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>')
  expect(shown('3. a\n\n4. b')).toBe('<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>')
  expect(shown('- [x] done\n- [ ] open')).toBe('<ul><li>☑ done</li><li>☐ open</li></ul>')
  expect(shown('> said\n\n---\n\n```js\nif (a < b) {}\n```')).toBe('<blockquote><p>said</p></blockquote><hr/><pre><code>if (a &lt; b) {}</code></pre>')
  expect(shown('| a | b |\n|---|---|\n| **1** | 2 |')).toBe('<div role="group" aria-label="Table" tabindex="0" class="overflow-x-auto"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td><strong>1</strong></td><td>2</td></tr></tbody></table></div>')
})

it('shows entities as their characters, and in code as they are written', () => {
  expect(shown('&copy; &#65; &amp; R&D \\*no\\*')).toBe('<p>© A &amp; R&amp;D *no*</p>')
  expect(shown('`&copy;`')).toBe('<p><code>&amp;copy;</code></p>')
})

it('links to pages and addresses alone', () => {
  const link = (address: string, text: string) => `<a href="${address}" rel="noreferrer noopener" target="_blank">${text}</a>`
  expect(shown('[a](https://example.com/?a=1&amp;b=2) <mailto:a@example.com> [b](/runs) https://example.com')).toBe(
    `<p>${link('https://example.com/?a=1&amp;b=2', 'a')} ${link('mailto:a@example.com', 'mailto:a@example.com')} ${link('/runs', 'b')} ${link('https://example.com', 'https://example.com')}</p>`,
  )
  for (const address of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'javascript&#58;alert(1)', '&#x6a;avascript:alert(1)', 'data:text/html,x', 'vbscript:x', '<java\tscript:alert(1)>']) expect(shown(`[a](${address})`)).not.toContain('href')
})

it('shows HTML as text and pictures as their words', () => {
  expect(shown('a <b onclick="x()">c</b> <script>alert(1)</script>')).toBe('<p>a &lt;b onclick=&quot;x()&quot;&gt;c&lt;/b&gt; &lt;script&gt;alert(1)&lt;/script&gt;</p>')
  expect(shown('<iframe src="https://example.com"></iframe>')).toContain('&lt;iframe')
  expect(shown('![words](https://example.com/x.png)')).toBe('<p>words</p>')
})

it('shows a text that is nested deeper than a page can be', () => {
  expect(shown('>'.repeat(20_000))).toContain('&gt;&gt;')
  const deep = shown(`${'>'.repeat(300)} end`)
  expect(deep).toContain('&gt; end')
  expect(deep.split('<blockquote>').length - 1).toBe(40)
})
