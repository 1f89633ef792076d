import { useMemo } from 'react'

/** A text with the words of a query marked. */
export function Marked({ text, query }: { text: string; query: string }) {
  const pattern = useMemo(() => {
    const words = query
      .split(/[\s"*]+/)
      .filter((word) => word.length > 1 && !word.startsWith('-'))
      .map((word) => word.replaceAll(/[.+?^${}()|[\]\\*]/g, String.raw`\$&`))
    return words.length > 0 ? new RegExp(`(${words.join('|')})`, 'i') : undefined
  }, [query])
  if (!pattern) return text
  return text.split(pattern).map((part, index) =>
    index % 2 === 1 ? (
      <mark key={index} className="rounded-xs bg-warn-soft text-inherit">
        {part}
      </mark>
    ) : (
      part
    ),
  )
}
