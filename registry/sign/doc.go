// Package sign verifies who released an artifact: it makes keys, signs OCI
// manifests and indexes, verifies signatures against a trust policy, and
// hashes the signed content.
//
// A signature is a Sigstore bundle v0.3 ([bundle.go]): a DSSE envelope around
// an in-toto statement whose subject is the digest of a manifest and whose
// predicate type is [ReleaseType], with the public key's fingerprint as a
// hint. It is an OCI referrer of the artifact, so it travels with it through
// any registry, and cosign v3 reads and writes the same. Keys need no network
// service. Signatures with certificates, made with a transparency log and a
// certificate authority ([Certified]), are verified by package sigstore against
// a trusted root of the policy.
//
// The flow:
//
//	Generate → LoadPrivate → Sign ─→ bundle as referrer
//	Policy → NewVerifier → Verifier.Verify (who released it?) → VerifyTree (are these the bytes?)
//
// [Verifier.Verify] decides on one digest: it reads the referrers of the
// manifest, keeps the bundles with a valid signature, subject and predicate
// type, and asks the [Policy] whether their keys suffice for the repository.
// Every failure is a [Refusal] with its own [Reason]. A signature binds a
// digest, not a repository or a name: mirrors and copies stay valid, and only
// the policy decides where a key is trusted.
//
// Nothing reads a clock. Signing the same manifest with the same key gives the
// same bytes: Ed25519 is deterministic, and ECDSA nonces follow RFC 6979.
package sign
