// What a tool call would do, in plain words.

const text = (value: unknown) => (typeof value === 'string' ? value : '')
const list = (value: unknown): Record<string, unknown>[] => (Array.isArray(value) ? (value as Record<string, unknown>[]) : [])
const nameOf = (object: Record<string, unknown>) => (object.key ? `${text(object.type)}/${text(object.key)}` : `a new ${text(object.type) || 'object'}`)
const few = (names: string[]) => (names.length > 4 ? `${names.slice(0, 4).join(', ')} and ${names.length - 4} more` : names.join(', '))

/** A sentence about a call of a built-in tool; undefined for tools that it does not know. */
export function describeEffect(toolName: string, input: unknown): string | undefined {
  const given = (input ?? {}) as Record<string, unknown>
  const id = text(given.id)
  switch (toolName) {
    case 'entities_delete':
      return `Deletes ${id} and its relationships. It can be restored from its history.`
    case 'entities_restore':
      return `Restores ${id} and its relationships.`
    case 'entities_update': {
      const fields = [...['status', 'key', 'type', 'labels'].filter((name) => name in given), ...Object.keys((given.properties ?? {}) as object)]
      return `Changes ${fields.length > 0 ? few(fields) : 'nothing'} of ${id}, as a new version.`
    }
    case 'entities_create': {
      const objects = given.objects ? list(given.objects) : [given]
      const edges = list(given.relationships).length
      return `Creates ${few(objects.map(nameOf))}${edges > 0 ? ` with ${edges} ${edges === 1 ? 'relationship' : 'relationships'}` : ''}.`
    }
    case 'relationships_create': {
      const edges = given.relationships ? list(given.relationships) : [given]
      return `Connects ${few(edges.map((edge) => `${text(edge.fromId)} to ${text(edge.toId)} (${text(edge.type)})`))}.`
    }
    case 'relationships_update':
      return 'Changes a relationship, as a new version.'
    case 'relationships_delete':
      return `Deletes ${id ? `the relationship ${id}` : `the relationship ${text(given.type)} from ${text(given.fromId)} to ${text(given.toId)}`}. It can be restored from its history.`
    case 'documents_create':
      return `Stores the document “${text(given.title)}” and makes it searchable.`
    case 'spawn_agents':
      return `Starts ${few(list(given.tasks).map((task) => text(task.agent_name)))} and waits for the results.`
    default:
      return undefined
  }
}

type GraphObject = { type: string; key?: string | null; status?: string | null; labels: string[]; properties: Record<string, unknown> }

/** An object as an update would leave it. A null removes a property. */
export function afterUpdate(object: GraphObject, input: Record<string, unknown>): GraphObject {
  const properties = { ...object.properties }
  for (const [name, value] of Object.entries((input.properties ?? {}) as Record<string, unknown>)) {
    if (value === null) delete properties[name]
    else properties[name] = value
  }
  return {
    type: text(input.type) || object.type,
    key: 'key' in input ? (input.key as string | null) : object.key,
    status: 'status' in input ? (input.status as string | null) : object.status,
    labels: Array.isArray(input.labels) ? (input.labels as string[]) : object.labels,
    properties,
  }
}

/** The parts of an object that a person reads. */
export const readable = ({ type, key, status, labels, properties }: GraphObject) => ({ type, ...(key && { key }), ...(status && { status }), ...(labels.length > 0 && { labels }), properties })
