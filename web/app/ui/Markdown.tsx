import { type ReactNode, useEffect, useMemo, useState } from 'react'
import { importUntilLoaded } from '~/util/load-parts'

let render: ((text: string) => ReactNode) | undefined
const load = () => importUntilLoaded(() => import('./markdown-elements')).then(({ toElements }) => (render = toElements))

const PROSE = [
  'min-w-0 break-words text-base leading-6 [&>*:first-child]:mt-0 [&>*:last-child]:mb-0',
  '[&_p]:my-2 [&_ul]:my-2 [&_ul]:list-disc [&_ul]:pl-5 [&_ol]:my-2 [&_ol]:list-decimal [&_ol]:pl-5 [&_li]:my-0.5',
  '[&_h1]:mt-4 [&_h1]:mb-2 [&_h1]:text-lg [&_h1]:font-semibold [&_h2]:mt-4 [&_h2]:mb-2 [&_h2]:font-semibold [&_h3]:mt-3 [&_h3]:mb-1 [&_h3]:font-semibold',
  '[&_a]:text-accent-text [&_a]:underline [&_code]:rounded-sm [&_code]:bg-sunken [&_code]:px-1 [&_code]:font-mono [&_code]:text-sm',
  '[&_pre]:my-2 [&_pre]:overflow-auto [&_pre]:rounded-md [&_pre]:border [&_pre]:border-line [&_pre]:bg-sunken [&_pre]:p-3 [&_pre_code]:bg-transparent [&_pre_code]:p-0',
  '[&_blockquote]:border-l-2 [&_blockquote]:border-line-strong [&_blockquote]:pl-3 [&_blockquote]:text-text-2',
  '[&_table]:my-2 [&_td]:border [&_td]:border-line [&_td]:px-2 [&_td]:py-1 [&_th]:border [&_th]:border-line [&_th]:px-2 [&_th]:py-1 [&_th]:text-left',
].join(' ')

/** Markdown of a model or a person. Until its code is loaded, the text is shown as it is. */
export function Markdown({ text }: { text: string }) {
  const [isLoaded, setLoaded] = useState(render !== undefined)
  useEffect(() => {
    if (!render) void load().then(() => setLoaded(true), () => undefined)
  }, [])
  const elements = useMemo(() => isLoaded && render?.(text), [isLoaded, text])
  return elements ? <div className={PROSE}>{elements}</div> : <div className="break-words whitespace-pre-wrap text-base leading-6">{text}</div>
}
