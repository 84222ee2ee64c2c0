// Package remote moves artifacts between the local store and OCI registries or
// other OCI image layouts (OCI distribution-spec v1.1).
//
// A [Client] holds what requests share: connections, credentials, limits.
// [Client.Push] sends a manifest or index with all it names and all its
// referrers (signatures), [Client.Pull] fetches one into a store;
// [Client.Resolve], [Client.Tags], [Client.Referrers] and [Client.Source] read
// without moving layers.
//
// Both directions keep to one order: blobs, then the manifests that name them
// from the leaves up, then their referrers, then tags. A reader of a tag or an
// index therefore finds everything below it. A tag is resolved once; after
// that everything is requested by digest.
//
// # Network faults
//
// - A dropped connection: an upload asks the registry for its offset and
// continues there (PATCH in chunks), a download continues with Range from the
// bytes in the store. At most one chunk is sent twice, and a download survives
// the process.
//
// - 408, 429, 5xx: retried a bounded number of times, after the wait of
// Retry-After if it is bearable.
//
// - Silence: a request without progress for [Options.Stall] is given up and
// counts as dropped.
//
// - A registry without chunks gets each blob in one request; one that ignores
// Range sends it again; one without the referrers API gets the referrers tag.
//
// # Trust
//
// Every blob is hashed before it is visible in the store, every manifest
// before it is parsed; sizes are bounded. Credentials are sent only to their
// host: redirects and upload locations elsewhere are followed without them,
// and never from HTTPS to HTTP. Plain HTTP is used for the loopback interface
// and the hosts in [Options.PlainHTTP].
package remote
