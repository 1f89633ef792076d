import { type UseMutationOptions, type UseMutationResult, useMutation } from '@tanstack/react-query'
import { useCallback, useLayoutEffect, useRef } from 'react'

/**
 * A change that is sent once: a call while it is being sent does nothing. `isPending` is known only with the next
 * drawing, and Enter may be pressed again before it.
 */
export function useMutationOnce<TData, TVariables = void>(options: UseMutationOptions<TData, Error, TVariables>): UseMutationResult<TData, Error, TVariables> {
  const mutation = useMutation(options)
  const { isPending, mutate: send } = mutation
  const isSending = useRef(false)
  useLayoutEffect(() => {
    isSending.current = isPending
  })
  const mutate = useCallback<typeof send>(
    (...args) => {
      if (isSending.current) return
      isSending.current = true
      send(...args)
    },
    [send],
  )
  return { ...mutation, mutate } as UseMutationResult<TData, Error, TVariables>
}
