import { Tabs as Base } from '@base-ui/react/tabs'
import type { ReactNode } from 'react'

export type Tab<K extends string> = { key: K; label: ReactNode; count?: number | undefined; panel: ReactNode }

/** Tabs whose choice the caller holds, which is to say the URL. */
export function Tabs<K extends string>({ tabs, value, onChange, label, note }: { tabs: Tab<K>[]; value: K; onChange: (key: K) => void; label: string; /** Why another tab was not opened. */ note?: ReactNode }) {
  return (
    <Base.Root value={value} onValueChange={(next) => onChange(next as K)}>
      <Base.List aria-label={label} className="flex gap-4 overflow-x-auto border-b border-line">
        {tabs.map((tab) => (
          <Base.Tab
            key={tab.key}
            value={tab.key}
            className="-mb-px flex h-9 items-center gap-1.5 border-b-2 border-transparent text-sm font-medium whitespace-nowrap text-text-2 hover:text-text aria-selected:border-accent aria-selected:text-text"
          >
            {tab.label}
            {tab.count !== undefined && <span className="rounded-full bg-sunken px-1.5 text-xs text-text-2">{tab.count}</span>}
          </Base.Tab>
        ))}
      </Base.List>
      {note && <p role="status" className="pt-2 text-xs text-danger-text">{note}</p>}
      {tabs.map((tab) => (
        <Base.Panel key={tab.key} value={tab.key} className="pt-4 outline-none">
          {tab.panel}
        </Base.Panel>
      ))}
    </Base.Root>
  )
}
