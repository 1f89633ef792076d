declare module 'graphology-layout-forceatlas2/iterate.js' {
  /** Moves all nodes by one step, in place. */
  export default function iterate(settings: Record<string, number | boolean>, nodes: Float32Array, edges: Float32Array): unknown
}
