// Markdown as HTML that is safe to show: nothing in it runs, loads or styles. It is loaded with the first text.
import DOMPurify from 'dompurify'
import { marked } from 'marked'

const TAGS = ['p', 'br', 'hr', 'strong', 'em', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td']

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return
  node.setAttribute('rel', 'noreferrer noopener')
  node.setAttribute('target', '_blank')
})

export function toHtml(text: string): string {
  const html = marked.parse(text, { async: false, gfm: true, breaks: true })
  return DOMPurify.sanitize(html, { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ['href', 'start'], ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|\/|#)/i })
}
