import { Link } from '@tanstack/react-router'
import { ArrowRight } from 'lucide-react'
import type { ReactNode } from 'react'
import type { RawSearch } from '~/hooks/use-url-state'

export const CardLink = ({ to, search, children }: { to: string; search?: RawSearch; children: ReactNode }) => (
  <Link to={to} search={search ?? {}} className="inline-flex items-center gap-1 rounded-sm text-xs font-medium text-accent-text hover:underline">
    {children}
    <ArrowRight aria-hidden size={12} />
  </Link>
)
