import { Dialog } from '@base-ui/react/dialog'
import { Sidebar } from './Sidebar'

/** The sidebar in a narrow window. */
export default function Drawer({ onClose }: { onClose: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
        <Dialog.Popup aria-label="Navigation" className="fixed inset-y-0 left-0 z-50 w-64 border-r border-line bg-bg shadow-pop outline-none">
          <Sidebar onNavigate={onClose} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
