// Package sign says who released an artifact: it makes keys, signs OCI
// manifests and indexes, verifies signatures against a trust policy, and
// hashes what a signature covers.
//
// A signature is a Sigstore bundle v0.3 ([bundle.go]): a DSSE envelope around
// an in-toto statement whose subject is the digest of a manifest and whose
// predicate type is [ReleaseType], with the public key's fingerprint as a hint.
// It lies beside the artifact as an OCI referrer, so it travels with it through
// any registry, and cosign v3 reads and writes the same. Nothing here talks to
// a network service: no transparency log, no certificate authority.
//
// The flow:
//
//	Generate → LoadPrivate → Sign ─→ bundle as referrer
//	Policy → NewVerifier → Verifier.Verify (who released it?) → VerifyTree (are these the bytes?)
//
// [Verifier.Verify] answers for one digest: it looks at the referrers of the
// manifest, keeps the bundles whose signature, subject and predicate type hold,
// and asks the [Policy] whether their keys suffice for the repository. Whatever
// fails is a [Refusal] with a [Reason] of its own. A signature binds a digest,
// not a repository or a name: mirrors and copies stay valid, and where a key
// may be trusted is the policy's business alone.
//
// Nothing reads a clock. Signing the same manifest with the same key gives the
// same bytes: Ed25519 is deterministic, and ECDSA nonces follow RFC 6979.
package sign
