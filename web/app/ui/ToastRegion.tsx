import { CircleCheck, CircleX, Info, X } from 'lucide-react'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { createPortal } from 'react-dom'
import { showToastsWith, type ToastKind, type ToastMessage } from './toast'
import { WithCode } from './WithCode'

const ICONS: Record<ToastKind, ReactNode> = {
  done: <CircleCheck aria-hidden size={16} className="text-ok" />,
  failed: <CircleX aria-hidden size={16} className="text-fail" />,
  info: <Info aria-hidden size={16} className="text-run" />,
}
const SHOWN_MS = 6000
const MOST = 3

/** The newest messages. They stay for as long as the pointer or the focus is on them. */
export default function ToastRegion() {
  const [toasts, setToasts] = useState<(ToastMessage & { id: number })[]>([])
  const [isHeld, setHeld] = useState(false)
  const count = useRef(0)
  useEffect(() => showToastsWith((message) => setToasts((known) => [{ ...message, id: count.current++ }, ...known].slice(0, MOST))), [])
  const close = (id: number) => {
    setToasts((known) => known.filter((one) => one.id !== id))
    // The button that had the pointer and the focus is gone, and neither says so.
    setHeld(false)
  }
  return createPortal(
    // Nobody acts on the region: it only notices that a message is being read.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <div
      role="region"
      aria-live="polite"
      aria-label="Notifications"
      onPointerEnter={() => setHeld(true)}
      onPointerLeave={() => setHeld(false)}
      onFocus={() => setHeld(true)}
      onBlur={() => setHeld(false)}
      className="fixed right-4 bottom-4 left-4 z-60 flex flex-col gap-2 empty:hidden sm:left-auto sm:w-88"
    >
      {toasts.map((one) => (
        <Toast key={one.id} message={one} isHeld={isHeld} onClose={() => close(one.id)} />
      ))}
    </div>,
    document.body,
  )
}

function Toast({ message: { title, description, kind }, isHeld, onClose }: { message: ToastMessage; isHeld: boolean; onClose: () => void }) {
  const end = useRef(onClose)
  useEffect(() => {
    end.current = onClose
  })
  useEffect(() => {
    if (isHeld) return
    const timer = setTimeout(() => end.current(), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [isHeld])
  return (
    <div data-toast className="animate-rise flex items-start gap-2 rounded-lg border border-line bg-raised p-3 shadow-pop">
      <span className="mt-0.5">{ICONS[kind]}</span>
      <div className="min-w-0 flex-1">
        <p className="font-medium text-text">{title}</p>
        {description && <p className="text-text-2"><WithCode text={description} /></p>}
      </div>
      <button type="button" aria-label="Dismiss" onClick={onClose} className="rounded-sm p-0.5 text-text-3 hover:text-text">
        <X aria-hidden size={14} />
      </button>
    </div>
  )
}
