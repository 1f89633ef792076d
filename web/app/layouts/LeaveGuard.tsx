import { useBlocker, useRouter } from '@tanstack/react-router'
import { type ComponentType, lazy, Suspense, useEffect, useRef } from 'react'
import { askToDiscard, hasUnsaved, useHasUnsaved, useQuestion } from '~/hooks/use-unsaved'

type Props = { onAnswer: (isDiscarded: boolean) => void }

const load = () => import('./LeaveDialog')

/** Asks with the window of the browser: nobody waits for code that a server does not send. */
function AskBrowser({ onAnswer }: Props) {
  useEffect(() => onAnswer(window.confirm('Discard what you wrote? It was not saved, and is lost when you leave.')), [onAnswer])
  return null
}
const LeaveDialog = lazy<ComponentType<Props>>(() => load().catch(() => ({ default: AskBrowser })))

/** Asks before text that was typed is left behind: by Back, by a link, or by the palette. */
export function LeaveGuard() {
  const isNeeded = useHasUnsaved()
  const question = useQuestion()
  const { history: pages } = useRouter()
  const moves = useRef(0)
  // The question may be needed when the server is away.
  useEffect(() => {
    if (isNeeded) void load().catch(() => undefined)
  }, [isNeeded])
  useBlocker({
    disabled: !isNeeded,
    enableBeforeUnload: false,
    shouldBlockFn: async ({ action, current, next }) => {
      const isElsewhere = current.pathname !== next.pathname || (current.search as { project?: string }).project !== (next.search as { project?: string }).project
      // A dialog leads to other pages itself when it is done, which is no way to lose its text.
      const isHistory = action === 'BACK' || action === 'FORWARD' || action === 'GO'
      if (!(isElsewhere && hasUnsaved('page')) && !(isHistory && hasUnsaved('dialog'))) return false
      if (!isHistory) return !(await askToDiscard())
      const move = ++moves.current
      // Back and then Forward: the browser is where the page is.
      if (history.state?.__TSR_index === pages.location.state.__TSR_index) {
        question?.(false)
        return false
      }
      const isDiscarded = await askToDiscard()
      // Back was pressed again meanwhile. That question knows the whole way, and this one must not go part of it.
      return move === moves.current ? !isDiscarded : new Promise<never>(() => {})
    },
  })
  return (
    <Suspense>
      {question && <LeaveDialog onAnswer={question} />}
    </Suspense>
  )
}
