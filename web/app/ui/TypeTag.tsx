import { colourOf } from '~/util/objects'

/** The type of an object: its colour and its word. */
export function TypeTag({ type }: { type: string }) {
  return (
    <span className="inline-flex h-5 max-w-full items-center gap-1.5 rounded-md border border-line bg-sunken px-1.5 align-middle text-xs font-medium text-text-2">
      <TypeDot type={type} />
      <span className="truncate">{type}</span>
    </span>
  )
}

export const TypeDot = ({ type }: { type: string }) => <span aria-hidden className="size-2 shrink-0 rounded-full" style={{ background: colourOf(type) }} />
