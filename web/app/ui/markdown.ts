// Markdown as HTML that is safe to show: nothing in it runs, loads or styles. It is loaded with the first text.
import DOMPurify from 'dompurify'
import { Marked } from 'marked'

const TAGS = ['p', 'br', 'hr', 'strong', 'em', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td']

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

// HTML in the text is shown as text: even to parse it would touch what the policy forbids. Pictures are their words.
const marked = new Marked({ gfm: true, breaks: true, async: false, renderer: { html: ({ text }) => escaped(text), image: ({ text }) => escaped(text) } })

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return
  node.setAttribute('rel', 'noreferrer noopener')
  node.setAttribute('target', '_blank')
})

export function toHtml(text: string): string {
  const html = marked.parse(text, { async: false })
  return DOMPurify.sanitize(html, { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ['href', 'start'], ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|\/|#)/i })
}
