// What was written about a request, by the labels of its fields.
import { type SyntheticEvent, useState } from 'react'
import { draftsOf, forgetDrafts } from '~/hooks/use-draft'
import { type Item, isCall } from './inbox-state'
import { fieldsOf, labelOf } from './schema-fields'
import type { Decide } from './use-decide'

type TextField = HTMLInputElement | HTMLTextAreaElement

const isText = (target: EventTarget): target is TextField => target instanceof HTMLTextAreaElement || (target instanceof HTMLInputElement && ['text', 'number', 'search', 'url', 'email'].includes(target.type))
const nameOf = (field: TextField) => field.labels?.[0]?.textContent?.trim() || field.getAttribute('aria-label') || 'Text'

/** As their fields are called. */
const LABELS: Record<string, string> = { deny: 'Reason', edit: 'Input of the call', note: 'Note for the next attempt' }
const answerLabel = (item: Item, isJson: boolean) => (!isCall(item) ? 'Or decide in your own words' : isJson ? 'Answer, in JSON' : 'Answer')

/** The drafts of a request: what was written into its forms when they were open before. */
function writtenBefore(item: Item): Record<string, string> | undefined {
  const schema = isCall(item) ? item.question?.responseSchema : undefined
  const fields = schema ? fieldsOf(schema) : undefined
  const written: Record<string, string> = {}
  for (const [form, text] of draftsOf(item.id)) {
    if (form !== 'answer' || !fields) written[LABELS[form] ?? answerLabel(item, schema !== undefined && schema !== null)] = text
    else {
      const texts = JSON.parse(text) as Record<string, string>
      for (const field of fields) if (field.kind !== 'boolean' && texts[field.name]) written[labelOf(field)] = texts[field.name]!
    }
  }
  return Object.keys(written).length > 0 ? written : undefined
}

export type Kept = ReturnType<typeof useKeptText>

/** Notes what is written about a request, so that it can be shown when somebody else decides. */
export function useKeptText(item: Item, decide: Decide) {
  // The texts of the fields that were entered, by their labels; undefined as long as nobody writes.
  const [written, setWritten] = useState(() => writtenBefore(item))
  const [wasPending] = useState(item.status === 'pending')
  const isOwn = decide.isSuccess || decide.isPending
  return {
    texts: Object.entries(written ?? {}).filter(([, text]) => text.trim() !== ''),
    /** The forms are gone, and what was in them is shown. */
    isShown: item.status !== 'pending' && written !== undefined && !isOwn,
    /** Whether somebody may be in the middle of a sentence. */
    wasPending,
    note: ({ target }: SyntheticEvent) => {
      if (item.status === 'pending' && isText(target)) setWritten((known) => ({ ...known, [nameOf(target)]: target.value }))
    },
    forget: () => {
      forgetDrafts(item.id)
      setWritten(undefined)
    },
  }
}
