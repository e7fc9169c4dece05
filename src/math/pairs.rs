//! Two slices side by side, in kernels.
//!
//! As `zip`, whose pairs are made by functions of the standard library that are not marked to be inlined. A kernel that is
//! compiled for wide registers then calls them in another codegen unit, and its loops are not made for those registers:
//! topic n-grams took nearly twice as long. What is here is inlined whatever the profile.

/// Visits the elements of both, as far as the shorter one goes.
#[inline(always)]
pub fn each<A, B>(a: &[A], b: &[B], mut visit: impl FnMut(&A, &B)) {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    for at in 0..length {
        visit(&a[at], &b[at]);
    }
}

/// The same, where the first changes.
#[inline(always)]
pub fn each_mut<A, B>(to: &mut [A], from: &[B], mut visit: impl FnMut(&mut A, &B)) {
    let length = to.len().min(from.len());
    let (to, from) = (&mut to[..length], &from[..length]);
    for at in 0..length {
        visit(&mut to[at], &from[at]);
    }
}
