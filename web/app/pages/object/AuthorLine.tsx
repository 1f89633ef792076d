import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Bot, KeyRound, Server } from 'lucide-react'
import { api, unwrap, unwrapPage } from '~/api/client'
import type { Author } from '~/api/graph'
import { keys } from '~/api/keys'
import { useScope } from '~/api/session'
import { shortId } from '~/util/format'

/** Who wrote a version: a token, the server, or a run with its step and its call. */
export function AuthorLine({ author }: { author: Author }) {
  if (author.type === 'run') return <RunAuthor runId={author.runId} toolCallId={author.toolCallId ?? undefined} />
  if (author.type === 'token') return <TokenAuthor id={author.id} />
  return (
    <span className="inline-flex items-center gap-1.5">
      <Server aria-hidden size={14} className="text-text-3" />
      The server
    </span>
  )
}

/** The same in a few words, without a link. */
export function AuthorName({ author }: { author: Author }) {
  const name = useTokenName(author.type === 'token' ? author.id : undefined)
  return author.type === 'token' ? `Token ${name ?? shortId(author.id)}` : author.type === 'run' ? `Run ${shortId(author.runId)}` : 'The server'
}

function useTokenName(id: string | undefined): string | undefined {
  const { allowed } = useScope('admin:read')
  const tokens = useQuery({
    queryKey: [...keys.tokens, 'names'],
    enabled: allowed && id !== undefined,
    staleTime: 60_000,
    queryFn: ({ signal }) => unwrapPage(api.GET('/api/tokens', { params: { query: { limit: 100 } }, signal })),
  })
  return tokens.data?.items.find((token) => token.id === id)?.name
}

function TokenAuthor({ id }: { id: string }) {
  const name = useTokenName(id)
  return (
    <span className="inline-flex items-center gap-1.5">
      <KeyRound aria-hidden size={14} className="text-text-3" />
      <span>
        Token {name ? <strong className="font-medium">{name}</strong> : <code className="font-mono text-xs">{shortId(id)}</code>}
      </span>
    </span>
  )
}

function RunAuthor({ runId, toolCallId }: { runId: string; toolCallId: string | undefined }) {
  const { allowed } = useScope('admin:read')
  const run = useQuery({
    queryKey: [...keys.run(runId), 'author'],
    enabled: allowed,
    staleTime: 60_000,
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/runs/{runId}', { params: { path: { runId } }, signal })),
  })
  const agentId = run.data?.agentId
  const call = useQuery({
    queryKey: [...keys.run(runId), 'author', toolCallId],
    enabled: allowed && agentId !== undefined && toolCallId !== undefined,
    staleTime: Infinity,
    queryFn: ({ signal }) => unwrap(api.GET('/api/admin/agents/{agentId}/runs/{runId}/tool-calls/{toolCallId}', { params: { path: { agentId: agentId!, runId, toolCallId: toolCallId! } }, signal })),
  })
  return (
    <span>
      <Bot aria-hidden size={14} className="mr-1.5 inline text-text-3" />
      <Link to="/runs/$runId" params={{ runId }} className="font-medium text-accent-text hover:underline">
        {run.data ? `${run.data.agentName}, run ${shortId(runId)}` : `Run ${shortId(runId)}`}
      </Link>
      {call.data && (
        <Link to="/runs/$runId" params={{ runId }} search={{ item: toolCallId }} className="text-text-2 hover:underline">
          {' '}
          › step {call.data.stepNumber} › <code className="font-mono text-xs">{call.data.toolName}</code>
        </Link>
      )}
    </span>
  )
}
