import type { ReactNode } from 'react'

/** Says that there is nothing, why, and what to do next. */
export function EmptyState({ icon, title, children, action }: { icon?: ReactNode; title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="flex flex-col items-center justify-center px-6 py-10 text-center">
      {icon && <div className="mb-3 grid size-10 place-items-center rounded-full bg-sunken text-text-3">{icon}</div>}
      <p className="font-medium text-text">{title}</p>
      {children && <div className="mt-1 max-w-md text-balance text-text-2">{children}</div>}
      {action && <div className="mt-4">{action}</div>}
    </div>
  )
}
