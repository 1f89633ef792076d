import { oneOf, type RawSearch } from '~/hooks/use-url-state'
import { parseTime } from '~/util/periods'

export const MODES = ['hybrid', 'auto', 'linked', 'text', 'vector'] as const
export const DEPTHS = ['1', '2', '3', '4'] as const

export type GraphSearch = {
  view: 'explore' | undefined
  q: string | undefined
  mode: (typeof MODES)[number] | undefined
  type: string | undefined
  status: string | undefined
  label: string | undefined
  system: 'true' | undefined
  /** The deleted objects instead of the live ones. It is about now, so it is not combined with `asOf`. */
  deleted: 'true' | undefined
  asOf: string | undefined
  /** The object that the exploration starts at, how far it goes, and what was expanded. */
  from: string | undefined
  depth: (typeof DEPTHS)[number] | undefined
  expanded: string | undefined
}

export function parseGraphSearch(raw: RawSearch): GraphSearch {
  return {
    view: oneOf(['explore'], raw.view),
    q: raw.q?.slice(0, 2500) || undefined,
    mode: oneOf(MODES, raw.mode),
    type: raw.type || undefined,
    status: raw.status || undefined,
    label: raw.label || undefined,
    system: oneOf(['true'], raw.system),
    deleted: parseTime(raw.asOf) ? undefined : oneOf(['true'], raw.deleted),
    asOf: parseTime(raw.asOf),
    from: raw.from || undefined,
    depth: oneOf(DEPTHS, raw.depth),
    expanded: raw.expanded || undefined,
  }
}
