/** The number of a field; undefined when it is empty. */
export const asNumber = (text: string): number | undefined => (text.trim() === '' || Number.isNaN(Number(text)) ? undefined : Number(text))
