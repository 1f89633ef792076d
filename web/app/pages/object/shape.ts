import type { GraphObject } from '~/api/graph'

/** What a version says, without when and by whom: what two versions are compared by. */
export function contentOf(object: Pick<GraphObject, 'type' | 'key' | 'status' | 'labels' | 'properties' | 'deletedAt'>) {
  return {
    ...(object.deletedAt ? { deleted: true } : {}),
    type: object.type,
    key: object.key ?? null,
    ...(object.status ? { status: object.status } : {}),
    ...(object.labels.length > 0 ? { labels: object.labels } : {}),
    properties: Object.fromEntries(Object.entries(object.properties).sort(([a], [b]) => a.localeCompare(b))),
  }
}
