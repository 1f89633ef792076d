import { Link } from '@tanstack/react-router'
import { Bot, ChevronRight, MessageSquareText, ScrollText, Server } from 'lucide-react'
import { memo, useState } from 'react'
import { Badge } from '~/ui/Badge'
import { Money, Tokens } from '~/ui/Values'
import { WithCode } from '~/ui/WithCode'
import { classes } from '~/util/classes'
import { formatAbsolute, words } from '~/util/format'
import { LongText } from './ResultCard'
import type { RunDetail } from './run-queries'
import type { LiveText, MessageItem, NoticeItem, RecordItem } from './run-record'
import { ToolCallItem } from './ToolCallItem'

type Props = { item: RecordItem; run: RunDetail; isSelected: boolean; version: string }

/** `version` tells the memo that an item was changed in place. */
export const TranscriptItem = memo(
  function TranscriptItem({ item, run, isSelected }: Props) {
    return (
      <div data-item={item.id} className={classes('border-b border-line', isSelected && 'bg-selected')}>
        {item.kind === 'message' ? <Message item={item} run={run} /> : item.kind === 'call' ? <ToolCallItem item={item} run={run} isSelected={isSelected} /> : <Notice item={item} />}
      </div>
    )
  },
  (before, after) => before.item === after.item && before.isSelected === after.isSelected && before.version === after.version && before.run.status === after.run.status,
)

const clock = (at: number) => new Date(at).toLocaleTimeString('en-GB')
export const Clock = ({ at }: { at: number }) => (
  <time dateTime={new Date(at).toISOString()} title={formatAbsolute(at)} className="text-2xs whitespace-nowrap text-text-3">
    {clock(at)}
  </time>
)

const ROLES = { assistant: Bot, user: MessageSquareText, system: ScrollText, tool_result: Server }

function Message({ item, run }: { item: MessageItem; run: RunDetail }) {
  const [isOpen, setOpen] = useState(item.role !== 'system')
  const Icon = item.injected ? Server : ROLES[item.role]
  const who = item.injected ? 'Server' : item.role === 'assistant' ? run.agentName : item.role === 'user' ? 'Input' : 'System prompt'
  return (
    <article className="px-4 py-3">
      <header className="flex items-center gap-2">
        <Icon aria-hidden size={14} className={item.role === 'assistant' ? 'text-accent-text' : 'text-text-3'} />
        {item.role === 'system' ? (
          <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} className="flex items-center gap-1 rounded-sm font-medium">
            {who}
            <ChevronRight aria-hidden size={12} className={classes('transition-transform', isOpen && 'rotate-90')} />
          </button>
        ) : (
          <span className="min-w-0 truncate font-medium">{who}</span>
        )}
        {item.role === 'assistant' && <span className="text-xs whitespace-nowrap text-text-2">step {item.step}</span>}
        {item.injected && <Badge>{words(item.injected)}</Badge>}
        <span className="ml-auto flex items-center gap-3 text-xs whitespace-nowrap text-text-2">
          {item.tokens && (
            <span className="max-sm:hidden">
              <Tokens input={item.tokens.input} output={item.tokens.output} /> tokens
            </span>
          )}
          {item.cost ? <Money usd={item.cost} /> : null}
          <Clock at={item.at} />
        </span>
      </header>
      {isOpen && (
        <div className="mt-1.5 pl-5.5">
          {item.thoughts && <Thoughts text={item.thoughts} />}
          {item.text && <LongText text={item.text} />}
        </div>
      )}
    </article>
  )
}

function Thoughts({ text }: { text: string }) {
  return (
    <div className="mb-1.5 border-l-2 border-line pl-2.5 text-text-2 italic">
      <LongText text={text} />
    </div>
  )
}

/** What the model is writing now. It becomes a message when it is complete. */
export function LiveItem({ live, agent }: { live: LiveText; agent: string }) {
  return (
    <article data-live className="px-4 py-3">
      <header className="flex items-center gap-2">
        <Bot aria-hidden size={14} className="text-accent-text" />
        <span className="font-medium">{agent}</span>
        <span className="text-xs text-text-2">step {live.step}</span>
        <Badge tone="run">writing</Badge>
      </header>
      <div className="mt-1.5 max-w-3xl pl-5.5">
        {live.thoughts && <p className="mb-1.5 border-l-2 border-line pl-2.5 whitespace-pre-wrap text-text-2 italic">{live.thoughts}</p>}
        {live.omitted > 0 && <p className="text-xs text-text-2">The first {live.omitted.toLocaleString('en')} characters follow when the answer is complete.</p>}
        <p className="break-words whitespace-pre-wrap">
          {live.text}
          <span aria-hidden className="animate-breathe ml-0.5 inline-block h-3.5 w-1.5 bg-accent align-middle" />
        </p>
      </div>
    </article>
  )
}

function Notice({ item }: { item: NoticeItem }) {
  return (
    <div className="flex gap-2 px-4 py-2 text-xs text-text-2">
      <span aria-hidden className={classes('mx-1 mt-1.25 size-1.5 shrink-0 rounded-full', `bg-${item.tone}-fill`)} />
      <div className="min-w-0 flex-1">
        {item.text}
        {item.approvalId && (
          <>
            {' · '}
            <Link to="/inbox" search={{ item: item.approvalId }} className="text-accent-text underline">
              Open the request
            </Link>
          </>
        )}
        {item.childRunId && (
          <>
            {' · '}
            <Link to="/runs/$runId" params={{ runId: item.childRunId }} className="text-accent-text underline">
              In a run below
            </Link>
          </>
        )}
        {item.detail && <p className="break-words whitespace-pre-wrap"><WithCode text={item.detail} /></p>}
      </div>
      <Clock at={item.at} />
    </div>
  )
}
