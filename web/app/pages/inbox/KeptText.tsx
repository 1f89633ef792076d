import { Info, X } from 'lucide-react'
import { type ReactNode, useLayoutEffect, useRef } from 'react'
import { holdShortcuts } from '~/hooks/use-shortcut'
import { IconButton } from '~/ui/Button'
import { CopyButton } from '~/ui/CopyButton'
import { Who } from './DecisionCard'
import { wordsFor } from './first-decision'
import type { Item } from './inbox-state'
import type { Kept } from './kept-text'
import { type Decide, wasDecided } from './use-decide'

/**
 * The forms of a request. When somebody else decides it, they go away; what was being written into them stays to be
 * copied, and the rest of the sentence acts on nothing.
 */
export function KeptText({ item, decide, kept, children }: { item: Item; decide: Decide; kept: Kept; children: ReactNode }) {
  return (
    <>
      {kept.isShown && <Notice item={item} kept={kept} isTold={wasDecided(decide.error)} />}
      <div className="contents" onFocus={kept.note} onInput={kept.note}>
        {children}
      </div>
    </>
  )
}

/** `isTold`: another notice says already who was first. */
function Notice({ item, kept: { texts, wasPending, forget }, isTold }: { item: Item; kept: Kept; isTold: boolean }) {
  const place = useRef<HTMLDivElement>(null)
  const takesFocus = wasPending && !isTold
  useLayoutEffect(() => {
    if (!takesFocus) return
    holdShortcuts()
    place.current?.focus({ preventScroll: true })
    place.current?.scrollIntoView({ block: 'nearest' })
  }, [takesFocus])
  if (isTold && texts.length === 0) return null
  return (
    <div ref={place} role={isTold ? undefined : 'alert'} tabIndex={-1} className="relative space-y-3 rounded-md bg-warn-soft px-3 py-2.5 pr-10 outline-offset-2">
      <span className="absolute top-1.5 right-1.5">
        <IconButton label="Forget what you wrote" size="sm" onClick={forget}>
          <X aria-hidden size={14} />
        </IconButton>
      </span>
      {!isTold && (
        <p className="flex gap-2 font-medium text-warn">
          <Info aria-hidden size={16} className="mt-0.5 shrink-0" />
          <span>
            {!item.decision ? (
              item.status === 'expired' ? 'Its time was up while you wrote' : 'It was withdrawn while you wrote'
            ) : (
              <>
                <Who tokenId={item.decision.tokenId} /> {wordsFor(item.kind, item.decision.decision)} while you wrote
              </>
            )}
            . {texts.length > 0 ? 'What you wrote was not sent.' : 'Nothing of yours was sent.'}
          </span>
        </p>
      )}
      {texts.map(([label, text]) => (
        <div key={label}>
          <p className="flex items-center gap-1 text-xs font-medium text-text-2">
            {label}, as you wrote it <CopyButton text={text} label="Copy what you wrote" />
          </p>
          <p dir="auto" className="break-words whitespace-pre-wrap text-text">{text}</p>
        </div>
      ))}
    </div>
  )
}
