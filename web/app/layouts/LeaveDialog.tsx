import { ConfirmDialog } from '~/ui/ConfirmDialog'

/** Asked before a page or a dialog is left with text that was not saved. */
export default function LeaveDialog({ onAnswer }: { onAnswer: (isDiscarded: boolean) => void }) {
  return (
    <ConfirmDialog open onClose={() => onAnswer(false)} onConfirm={() => onAnswer(true)} title="Discard what you wrote?" action="Discard" danger>
      <p>It was not saved, and is lost when you leave.</p>
    </ConfirmDialog>
  )
}
