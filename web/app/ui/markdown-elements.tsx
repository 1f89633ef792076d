// Markdown as elements that are safe to show: nothing in it runs, loads or styles. It is loaded with the first text.
import { type Token, type Tokens, Lexer } from 'marked'
import { createElement, Fragment, type ReactNode } from 'react'

const ENTITY = /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi
/** Addresses that a link may lead to. */
const ADDRESS = /^(?:https?:|mailto:|\/|#)/i

/** What stands for a character, such as `&copy;`, as that character. The parser sees nothing else of the text. */
const decode = (text: string) => text.replace(ENTITY, (entity) => new DOMParser().parseFromString(`-${entity}`, 'text/html').body.textContent.slice(1))

/** How deep what stands in a list or quotation is read. Below it is text: a browser lays out no page of any depth. */
const MAX_DEPTH = 40
let depth = 0

function all(tokens: Token[] = []): ReactNode {
  if (depth === MAX_DEPTH) return tokens.map(({ raw }) => raw).join('')
  depth++
  const elements = tokens.map((token, index) => <Fragment key={index}>{one(token as Tokens.Generic)}</Fragment>)
  depth--
  return elements
}

const cells = (row: Tokens.TableCell[], tag: 'td' | 'th') => <tr>{row.map((cell, index) => createElement(tag, { key: index }, all(cell.tokens)))}</tr>

function link({ href, autolink, tokens }: Tokens.Link): ReactNode {
  const address = autolink ? href : decode(href)
  if (!ADDRESS.test(address)) return all(tokens)
  return (
    <a href={address} rel="noreferrer noopener" target="_blank">
      {all(tokens)}
    </a>
  )
}

function one(token: Tokens.Generic): ReactNode {
  switch (token.type) {
    case 'paragraph':
      return <p>{all(token.tokens)}</p>
    case 'strong':
    case 'em':
    case 'del':
    case 'blockquote':
      return createElement(token.type, null, all(token.tokens))
    case 'heading':
      return createElement(`h${token.depth}`, null, all(token.tokens))
    case 'list':
      return createElement(token.ordered ? 'ol' : 'ul', token.ordered && token.start !== 1 ? { start: token.start } : null, all(token.items))
    case 'list_item':
      return <li>{all(token.tokens)}</li>
    case 'checkbox':
      return token.checked ? '☑ ' : '☐ '
    case 'code':
      return <pre><code>{token.text}</code></pre>
    case 'codespan':
      return <code>{token.text}</code>
    case 'table':
      return (
        // A table that is wider than its text is scrolled by itself, also with the keyboard.
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        <div role="group" aria-label="Table" tabIndex={0} className="overflow-x-auto">
          <table>
            <thead>{cells(token.header, 'th')}</thead>
            <tbody>{token.rows.map((row: Tokens.TableCell[], index: number) => <Fragment key={index}>{cells(row, 'td')}</Fragment>)}</tbody>
          </table>
        </div>
      )
    case 'link':
      return link(token as Tokens.Link)
    case 'br':
    case 'hr':
      return createElement(token.type)
    case 'space':
    case 'def':
      return null
    case 'text':
      return token.tokens ? all(token.tokens) : token.escaped ? token.text : decode(token.text)
    // HTML is shown as it is written, and a picture as its words.
    default:
      return token.text
  }
}

export function toElements(text: string): ReactNode {
  let tokens: Token[]
  try {
    tokens = Lexer.lex(text, { gfm: true, breaks: true })
  } catch {
    // The lexer calls itself for each level, and a text can have more of them than calls can be nested.
    return <p>{text}</p>
  }
  return all(tokens)
}
