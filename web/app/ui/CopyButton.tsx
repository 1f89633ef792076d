import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { IconButton } from './Button'

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [copied])
  return (
    <IconButton size="sm" label={copied ? 'Copied' : label} disabledReason={navigator.clipboard ? undefined : 'The browser allows copying only over HTTPS.'} onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}>
      {copied ? <Check aria-hidden size={14} className="text-ok" /> : <Copy aria-hidden size={14} />}
    </IconButton>
  )
}
