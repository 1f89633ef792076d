import { cloneElement, type ComponentType, lazy, type ReactElement, type ReactNode, Suspense, useState } from 'react'
import { importOrTell } from '~/util/load-parts'

export type MenuItem = {
  label: ReactNode
  onSelect: () => void
  icon?: ReactNode
  danger?: boolean
  checked?: boolean
  disabledReason?: string | undefined
}

export type MenuProps = {
  /** A button that takes a ref and the props of a button. */
  trigger: ReactElement<Record<string, unknown>>
  items: MenuItem[]
  label?: string
  side?: 'top' | 'bottom' | 'right'
  align?: 'start' | 'end'
}

const MenuPopup = lazy(() => importOrTell<{ default: ComponentType<MenuProps> }>(() => import('./MenuPopup'), { default: ({ trigger }) => trigger }))

/** A menu at a button. Its code is loaded when it is opened for the first time, so that pages start sooner. */
export function Menu(props: MenuProps) {
  const [wanted, setWanted] = useState(false)
  const closed = cloneElement(props.trigger, { 'aria-haspopup': 'menu', 'aria-expanded': false, onClick: () => setWanted(true) })
  if (!wanted) return closed
  return (
    <Suspense fallback={closed}>
      <MenuPopup {...props} />
    </Suspense>
  )
}
