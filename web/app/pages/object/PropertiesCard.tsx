import type { ReactNode } from 'react'
import type { GraphObject } from '~/api/graph'
import { Badge } from '~/ui/Badge'
import { Card } from '~/ui/Card'
import { JsonView } from '~/ui/JsonView'
import { KeyValue } from '~/ui/KeyValue'
import { hasParts } from '~/util/json'

const isName = (property: string) => property === 'name' || property === 'title'

/** The properties as a table; nested values as JSON. */
export function PropertiesCard({ object, action }: { object: GraphObject; action?: ReactNode }) {
  const entries = Object.entries(object.properties).sort(([a], [b]) => Number(isName(b)) - Number(isName(a)))
  return (
    <Card title="Properties" action={action}>
      {entries.length === 0 ? <p className="text-text-2">It has no properties.</p> : <KeyValue items={entries.map(([name, value]) => [name, <Value key={name} value={value} />])} />}
      {object.labels.length > 0 && (
        <div className="mt-4 flex flex-wrap gap-1.5 border-t border-line pt-3">
          {object.labels.map((label) => (
            <Badge key={label}>{label}</Badge>
          ))}
        </div>
      )}
    </Card>
  )
}

const isPlain = (value: unknown) => !hasParts(value)

function Value({ value }: { value: unknown }) {
  if (Array.isArray(value) && value.length > 0 && value.every(isPlain)) {
    return (
      <span className="flex flex-wrap gap-1">
        {value.map((one, index) => (
          <Badge key={index}>{String(one)}</Badge>
        ))}
      </span>
    )
  }
  if (!isPlain(value)) return <JsonView value={value} open={1} />
  if (typeof value === 'string') {
    if (/^https?:\/\/\S+$/.test(value)) {
      return (
        <a href={value} target="_blank" rel="noreferrer noopener" className="wrap-anywhere text-accent-text underline">
          {value}
        </a>
      )
    }
    return <span className="whitespace-pre-wrap">{value}</span>
  }
  return <span className="font-mono text-xs">{String(value)}</span>
}
