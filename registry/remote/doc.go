// Package remote moves artifacts between the local store and OCI registries or
// other OCI image layouts (OCI distribution-spec v1.1).
//
// A [Client] holds what requests share: connections, credentials, limits.
// [Client.Push] sends a manifest or index with all it names and all that refers
// to it (signatures), [Client.Pull] brings one into a store; [Client.Resolve],
// [Client.Tags], [Client.Referrers] and [Client.Source] look without moving
// anything big.
//
// Both directions keep to one order: blobs, then the manifests that name them
// from the leaves up, then what refers to those, then tags. Whoever follows a
// tag or an index therefore finds everything below it. A tag is resolved once;
// from then on everything goes by digest.
//
// # What goes wrong on a network, and what happens then
//
//   - A dropped connection: an upload asks the registry how far it got and goes
//     on from there (PATCH in chunks), a download goes on with Range from what
//     the store has kept. At most one chunk is sent twice, and a download
//     survives the process.
//   - 408, 429, 5xx: tried again, a bounded number of times, after the wait that
//     Retry-After asks for as long as that is bearable.
//   - Silence: a request on which nothing moves for [Options.Stall] is given up
//     and counts as dropped.
//   - A registry that knows no chunks gets each blob in one request; one that
//     ignores Range sends it anew; one without the referrers API gets the
//     referrers tag.
//
// # What is not believed
//
// Every blob is hashed before it is visible in the store, every manifest before
// it is read; sizes are bounded. Credentials go to the host they are for:
// redirects and upload locations elsewhere are followed without them, and never
// from HTTPS to HTTP. Plain HTTP is spoken to the loopback interface and to the
// hosts that [Options.PlainHTTP] names.
package remote
