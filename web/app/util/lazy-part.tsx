import { type ComponentType, lazy, type ReactNode, Suspense } from 'react'
import { Button } from '~/ui/Button'
import { importUntilLoaded, reload } from './load-parts'

const Note = ({ children }: { children: ReactNode }) => (
  <div role="status" className="fixed bottom-4 left-1/2 z-60 flex w-max max-w-[90vw] -translate-x-1/2 items-center gap-3 rounded-md border border-line bg-surface px-4 py-2 shadow-card transition-opacity delay-500 starting:opacity-0">
    {children}
  </div>
)

type Closes = { onClose: () => void }

/** In place of a part that never comes. It waits for the person, who may have written something on the page. */
function Missing({ onClose }: Closes) {
  return (
    <Note>
      This part of the page could not be loaded: the server was replaced by another version.
      <Button size="sm" onClick={() => void reload()}>Reload</Button>
      <Button size="sm" onClick={onClose}>Not now</Button>
    </Note>
  )
}

/** A dialog that is a file of its own, loaded when it is opened, and as soon as the server is back if it was away. */
export function lazyPart<P extends Closes>(importer: () => Promise<ComponentType<P>>): ComponentType<P> {
  const Part = lazy<ComponentType<P>>(() => importUntilLoaded(importer).catch(() => Missing).then((loaded) => ({ default: loaded })))
  return (props) => (
    <Suspense fallback={<Note>Loading. If the server is away, it opens when the server is back.</Note>}>
      <Part {...(props as P & object)} />
    </Suspense>
  )
}
