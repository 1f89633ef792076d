import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { type ComponentType, lazy, StrictMode, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './api/query-client'
import { router } from './router'
import { useHasToasts } from './ui/toast'
import { TooltipProvider } from './ui/Tooltip'
import { importUntilLoaded } from './util/load-parts'
import './ui/styles.css'

const ToastRegion = lazy<ComponentType>(() => importUntilLoaded(() => import('./ui/ToastRegion')).catch(() => ({ default: () => null })))

function Toasts() {
  return useHasToasts() ? (
    <Suspense>
      <ToastRegion />
    </Suspense>
  ) : null
}

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <TooltipProvider delay={300}>
        <RouterProvider router={router} />
        <Toasts />
      </TooltipProvider>
    </QueryClientProvider>
  </StrictMode>,
)
