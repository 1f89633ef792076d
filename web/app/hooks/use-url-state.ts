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

const parseDialog = (raw: RawSearch) => ({ dialog: raw.dialog, of: raw.of || undefined })

type UrlDialog<Name> = { dialog: Name | undefined; of: string | undefined; open: (name: Name, of?: string) => void; close: () => void }

/**
 * The dialog that is open, as the URL names it: a link opens it, and Back closes it. A dialog of a link may be one that
 * its button refuses, so it has to say so as well. In a list, `of` is the name or the id of the row that it is about:
 * never a value that somebody typed, because addresses are kept and passed on.
 */
export function useUrlDialog<const T extends readonly string[]>(names: T): UrlDialog<T[number]> {
  const [{ dialog, of }, change] = useUrlState(parseDialog)
  const navigate = useNavigate()
  const open = useCallback((name: T[number], row?: string) => change({ dialog: name, of: row }, { push: true }), [change])
  // What a dialog waited for may arrive when another one is open, which stays.
  const close = useCallback(() => {
    const search = (now: RawSearch): RawSearch => (now.dialog === dialog && (now.of || undefined) === of ? { ...now, dialog: undefined, of: undefined } : now)
    void navigate({ to: '.', replace: true, resetScroll: false, search })
  }, [navigate, dialog, of])
  return { dialog: oneOf(names, dialog), of, open, close }
}
