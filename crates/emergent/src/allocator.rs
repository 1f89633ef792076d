//! Settings of the allocator of the C library.

/// Large buffers go back to the system when they are freed. Otherwise glibc raises this limit to the size of what was
/// freed last, takes later buffers of that size from its heaps, and keeps them: a server that once answered many large
/// requests at the same time would hold twice the memory for ever.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the allocator of the C library can be set in no other way")]
pub fn return_large_buffers() {
    const LARGE_BYTES: libc::c_int = 512 << 10;
    // SAFETY: the call changes a setting of the allocator, which any thread may do at any time.
    let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) } == 1;
    debug_assert!(is_set, "glibc takes every value up to half of the size of a heap");
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_large_buffers() {}
