import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { logIn } from '~/api/session'
import { useTitle } from '~/hooks/use-title'
import { Button } from '~/ui/Button'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input } from '~/ui/Field'
import { Logo } from './Sidebar'

/** Asks for a token. It is shown in the place of any page, so that the login leads back to it. `onDiscard` forgets what was written there. */
export function LoginScreen({ why, onDiscard }: { why: string | undefined; onDiscard: (() => void) | undefined }) {
  useTitle('Log in')
  const client = useQueryClient()
  const [isWritten, setWritten] = useState(onDiscard !== undefined)
  const [token, setToken] = useState('')
  const [problem, setProblem] = useState<string>()
  const login = useMutation({
    mutationFn: (value: string) => logIn(client, value),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const value = token.trim()
    setProblem(value ? undefined : 'Enter a token.')
    if (value) login.mutate(value)
  }
  return (
    <main className="mx-auto flex min-h-screen max-w-sm flex-col justify-center px-4 py-12">
      <Logo />
      <h1 className="mt-6 text-xl font-semibold tracking-tight">Log in</h1>
      {why ? (
        <p role="alert" className="mt-3 rounded-md bg-warn-soft px-3 py-2 text-warn">
          {why}
        </p>
      ) : (
        <p className="mt-1 text-text-2">See every agent at work, and step in.</p>
      )}
      {isWritten && onDiscard && (
        <div className="mt-3 flex items-center gap-3 text-text-2">
          <p>What you wrote is there again for whoever logs in here.</p>
          <Button
            size="sm"
            onClick={() => {
              setWritten(false)
              onDiscard()
            }}
          >
            Discard it
          </Button>
        </div>
      )}
      <form onSubmit={submit} className="mt-5 space-y-4" noValidate>
        <Field label="Token" problem={problem} hint="The first token is in the file admin-token of the data folder.">
          {(ids) => <Input {...ids} type="password" name="token" autoFocus value={token} onChange={(event) => setToken(event.target.value)} />}
        </Field>
        <Button type="submit" variant="primary" busy={login.isPending} className="w-full">
          Log in
        </Button>
        <InlineError error={login.error} />
      </form>
      <p className="mt-6 border-t border-line pt-4 text-text-2">
        Or open the link that <code className="font-mono text-xs text-text">emergent login-link</code> prints: it logs this browser in once, without a token.
      </p>
    </main>
  )
}
