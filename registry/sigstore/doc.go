// Package sigstore verifies signatures that were made without a long-lived key: a
// certificate authority (Fulcio) certifies a key for minutes to an identity of an OpenID
// provider, a transparency log (Rekor) and time stamp authorities state when the key
// signed. It reads Sigstore bundles v0.1 to v0.3, not cosign's older layout, and verifies
// them against a trusted root in a file. Verification uses no network and no clock.
//
// The flow:
//
//	ParseRoot ─┐
//	Parse ─────┴→ Bundle.Verify → Verified (who signed, and when)
//
// [Bundle.Verify] makes every check that the root permits, in the order of the client
// specification of Sigstore: log entries (signed entry timestamp, inclusion proof,
// checkpoint, body), times, certificate chain at each time, signed certificate timestamp,
// signature. Its error is a [*Fault] that names the check. Who may sign is decided by the
// caller.
//
// [NewSigner] makes such signatures: it asks the services that a signing configuration
// names, and returns bundles that the trusted root confirms.
package sigstore
