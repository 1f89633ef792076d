// What lists call a run or a request: the start of a longer text, in words that people read.
import { plainTitle } from './format'

const MAX_LETTERS = 80

/** Labels that the server puts before the prompts of tasks and discussions. */
const LABELS = /^((TESTING )?TASK|REVIEW|DISCUSSION|Break this work down into tasks and make them with your tools): /
/** Marks of Markdown: of lines, and within a line. Underscores are part of many names, as of `__init__.py`, so only those around words are marks. */
const LINE_MARKS = /(^|\s)#{1,6}(?=\s)|^\s*[-*+>](?=\s)/g
const UNDERSCORES = /(?<![\w/.`])__((?:(?!__).)+)__(?![\w/`]|\.\w)/g
const WORD_MARKS = /\*\*|`+/g
/** A sentence ends before a capital letter, and is longer than an abbreviation or a greeting. */
const SENTENCE = /^.{20,}?[.!?](?=\s\p{Lu})/u

/** The first sentence of a text on one line, without Markdown. Where it is shown, the whole text is the title of the element. */
export function shortText(text: string): string {
  const plain = text
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(LINE_MARKS, ' ')
    .replace(UNDERSCORES, '$1')
    .replace(WORD_MARKS, '')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(LABELS, '')
  const sentence = SENTENCE.exec(plain)?.[0] ?? plain
  const letters = [...sentence]
  if (letters.length <= MAX_LETTERS) return sentence || text
  const start = letters.slice(0, MAX_LETTERS - 1).join('')
  return `${start.replace(/\s\S*$/, '')}…`
}

/** What a list calls a request. */
export const shortTitle = (item: { kind: string; title: string }) => shortText(plainTitle(item))
