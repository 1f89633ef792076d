// Which rows of a list are selected.

/** The rows between two of them, both included, as they are shown. Only the second one if the first is not shown. */
export function rangeOf(order: readonly string[], from: string, to: string): string[] {
  const [start, end] = [order.indexOf(from), order.indexOf(to)]
  return start < 0 || end < 0 ? [to] : order.slice(Math.min(start, end), Math.max(start, end) + 1)
}

/** The selection after rows became what the row that was pressed becomes: selected, or not any more. */
export function toggled(selected: ReadonlySet<string>, ids: readonly string[], pressed: string): Set<string> {
  const next = new Set(selected)
  for (const id of ids) {
    if (selected.has(pressed)) next.delete(id)
    else next.add(id)
  }
  return next
}
