import { Toast as Base } from '@base-ui/react/toast'
import { CircleCheck, CircleX, Info, X } from 'lucide-react'
import { type ReactNode, useEffect } from 'react'
import { showToastsWith, type ToastKind } from './toast'
import { WithCode } from './WithCode'

const manager = Base.createToastManager()

const ICONS: Record<ToastKind, ReactNode> = {
  done: <CircleCheck aria-hidden size={16} className="text-ok" />,
  failed: <CircleX aria-hidden size={16} className="text-fail" />,
  info: <Info aria-hidden size={16} className="text-run" />,
}

function Toasts() {
  const { toasts } = Base.useToastManager()
  return toasts.map((one) => (
    <Base.Root key={one.id} toast={one} data-toast className="animate-rise flex items-start gap-2 rounded-lg border border-line bg-raised p-3 shadow-pop">
      <span className="mt-0.5">{ICONS[(one.type as ToastKind | undefined) ?? 'done']}</span>
      <div className="min-w-0 flex-1">
        <Base.Title className="font-medium text-text" />
        <Base.Description className="text-text-2" />
      </div>
      <Base.Close aria-label="Dismiss" className="rounded-sm p-0.5 text-text-3 hover:text-text">
        <X aria-hidden size={14} />
      </Base.Close>
    </Base.Root>
  ))
}

export default function ToastRegion() {
  // This runs after the effects of the provider, which listens by then.
  useEffect(() => showToastsWith(({ title, description, kind }) => manager.add({ title, description: description && <WithCode text={description} />, type: kind, timeout: 6000 })), [])
  return (
    <Base.Provider toastManager={manager} limit={3}>
      <Base.Portal>
        <Base.Viewport className="fixed right-4 bottom-4 left-4 z-60 flex flex-col gap-2 sm:left-auto sm:w-88">
          <Toasts />
        </Base.Viewport>
      </Base.Portal>
    </Base.Provider>
  )
}
