import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'

export type RawSearch = Record<string, string | undefined>

/**
 * The state of a page as the URL holds it. `parse` is a constant function that reads what it knows and ignores the
 * rest, so an old link still opens. A value that is empty or undefined is removed from the URL.
 */
export function useUrlState<T>(parse: (raw: RawSearch) => T): [T, (change: Partial<Record<keyof T & string, string | undefined>>, options?: { push?: boolean }) => void] {
  const raw = useSearch({ strict: false }) as RawSearch
  const navigate = useNavigate()
  const state = useMemo(() => parse(raw), [parse, raw])
  const change = useCallback(
    (next: Partial<Record<keyof T & string, string | undefined>>, options?: { push?: boolean }) => {
      void navigate({
        to: '.',
        replace: !options?.push,
        resetScroll: false,
        search: (previous: RawSearch) => {
          const merged: RawSearch = { ...previous, ...next }
          for (const key of Object.keys(merged)) if (!merged[key]) delete merged[key]
          return merged
        },
      })
    },
    [navigate],
  )
  return [state, change]
}

/** Returns `value` if it is one of `allowed`. */
export function oneOf<const T extends readonly string[]>(allowed: T, value: string | undefined): T[number] | undefined {
  return allowed.includes(value ?? '') ? (value as T[number]) : undefined
}

const parseDialog = (raw: RawSearch) => ({ dialog: raw.dialog })

/**
 * The dialog that is open, as the URL names it: a link opens it, and Back closes it. A dialog of a link may be one that
 * its button refuses, so it has to say so as well.
 */
export function useUrlDialog<const T extends readonly string[]>(names: T): { dialog: T[number] | undefined; open: (name: T[number]) => void; close: () => void } {
  const [search, change] = useUrlState(parseDialog)
  const open = useCallback((name: T[number]) => change({ dialog: name }, { push: true }), [change])
  const close = useCallback(() => change({ dialog: '' }), [change])
  return { dialog: oneOf(names, search.dialog), open, close }
}
