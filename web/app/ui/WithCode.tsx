import { Breakable } from './Breakable'

/** A sentence of the server, which marks names with backticks: they are shown as code. Fences of several backticks stay. */
export const WithCode = ({ text }: { text: string | undefined }) =>
  text?.split(/(?<!`)`([^`\n]+)`(?!`)/).map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      <code key={index} className="font-mono text-[.92em]">
        <Breakable text={part} />
      </code>
    ),
  )
