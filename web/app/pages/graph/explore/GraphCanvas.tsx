import { useEffect, useRef, useState } from 'react'
import type { Relationship, TraversalNode } from '~/api/graph'
import { EmptyState } from '~/ui/EmptyState'
import { Picture } from './picture'

type Props = {
  root: string
  nodes: TraversalNode[]
  edges: Relationship[]
  selected: string | undefined
  onPicture: (picture: Picture | undefined) => void
  onExpand: (id: string) => void
  onOpen: (id: string) => void
  onBackground: () => void
}

/** The picture itself. Everything it shows and does is in the list beside it as well, for people without a pointer. */
export function GraphCanvas({ root, nodes, edges, selected, onPicture, onExpand, onOpen, onBackground }: Props) {
  const container = useRef<HTMLDivElement>(null)
  const picture = useRef<Picture>(undefined)
  const handlers = useRef({ onExpand, onOpen, onBackground })
  const [problem, setProblem] = useState<string>()
  useEffect(() => {
    handlers.current = { onExpand, onOpen, onBackground }
  })
  useEffect(() => {
    if (!container.current) return
    let made: Picture
    try {
      made = new Picture(container.current, {
        onClick: (id) => handlers.current.onExpand(id),
        onDoubleClick: (id) => handlers.current.onOpen(id),
        onBackground: () => handlers.current.onBackground(),
      })
    } catch (error) {
      setProblem((error as Error).message)
      return
    }
    picture.current = made
    onPicture(made)
    return () => {
      picture.current = undefined
      onPicture(undefined)
      made.destroy()
    }
  }, [onPicture])
  useEffect(() => picture.current?.update(root, nodes, edges), [root, nodes, edges])
  useEffect(() => picture.current?.select(selected), [selected])
  if (problem) return <EmptyState title="This browser cannot draw the picture.">It needs WebGL ({problem}). The list has the same objects.</EmptyState>
  return <div ref={container} data-picture aria-hidden className="min-h-80 flex-1" />
}
