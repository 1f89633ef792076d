/** What `emergent demo` dispatches, and by which it knows a demo that was played. */
export const GOAL = 'Break down and implement a document tagging system for the knowledge base'
